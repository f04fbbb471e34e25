"""Names in addresses: what can be no FleetAgent's is asked of nobody."""

import re

from starlette.exceptions import HTTPException

from fleetagent.domain.resource.values import DNS_NAME_PATTERN

LONGEST_NAME = 253


def must_be_a_name(name: str) -> None:
    """404 otherwise. The database would fail for some of them, for whoever else is asked about together with them."""
    if len(name) > LONGEST_NAME or not re.fullmatch(DNS_NAME_PATTERN, name):
        raise HTTPException(
            404, "there is no FleetAgent of that name: a name has small letters, digits, dots and dashes"
        )
