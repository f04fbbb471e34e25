"""`python -m fleetagent.dev.prebuild`: build what the tests start, once, where one can watch it.

Inside pytest the same builds would be silent, and would count against the time limit of the test that comes first.
"""

import sys

from fleetagent.dev.binaries import find_binaries
from fleetagent.dev.chromium import find_chromium
from fleetagent.dev.helm import find_helm
from fleetagent.dev.official_client import find_official_client
from fleetagent.dev.pgbouncer import find_pgbouncer
from fleetagent.dev.promtool import find_promtool
from fleetagent.errors import CannotStart

if __name__ == "__main__":
    try:
        find_binaries()
        find_helm()
        find_pgbouncer()
        find_official_client()
        find_chromium()
        find_promtool()
    except CannotStart as reason:
        sys.exit(f"error: {reason}")
