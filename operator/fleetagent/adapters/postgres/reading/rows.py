"""A row of the database as a view."""

from typing import Any, TypeVar

import sqlalchemy as sa

from fleetagent.domain.resource.wire import Wire

View = TypeVar("View", bound=Wire)


def view(kind: type[View], row: sa.RowMapping, **other: Any) -> View:
    """Columns bear the names of the view's fields; those that it does not know are passed over."""
    return kind.model_validate({**row, **other})
