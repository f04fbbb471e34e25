"""Run by `helm test`, as the operator's own account: is a replica ready, and may it list what it watches?"""
# ruff: noqa: INP001 - not imported: the chart hands its text to the interpreter

import os
import ssl
import sys
import time
import urllib.request
from pathlib import Path

DEADLINE_SECONDS = float(os.environ["DEADLINE_SECONDS"])
ACCOUNT = Path(os.environ["ACCOUNT_FOLDER"])
API = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}/apis/fleetagent.dev/v1alpha1".format_map(os.environ)
NAMESPACES = [name for name in os.environ["NAMESPACES"].split(",") if name]


def get(url: str, token: str = "", trusted: ssl.SSLContext | None = None) -> None:
    """Return on 200. Both are inside the cluster: a proxy of the environment is not for them."""
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the chart's own URLs
    try:
        urllib.request.build_opener(*handlers).open(request, timeout=5).close()
    except OSError as error:
        raise OSError(f"{url}: {error}") from error


def check() -> None:
    """`OSError` with what is not as it should be."""
    get(os.environ["READY_URL"])
    token = (ACCOUNT / "token").read_text().strip()
    trusted = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    for path in [f"namespaces/{name}/fleetagents" for name in NAMESPACES] or ["fleetagents"]:
        get(f"{API}/{path}?limit=1", token, trusted)


deadline = time.monotonic() + DEADLINE_SECONDS
while True:
    try:
        check()
        sys.exit(0)
    except OSError as error:
        if time.monotonic() > deadline:
            sys.exit(f"not within {DEADLINE_SECONDS:g} s: {error}")
        time.sleep(1)
