"""The secret in a worker's URL is stored as its hash only: what is compared tells nobody how much of it is right."""

import hashlib
import re

TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")


def token_hash(token: str) -> str:
    """What the database keeps of a worker's secret."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_hash_in(worker_url: str | None) -> str | None:
    """The hash of the secret inside a worker URL `…/workers/<token>`, if it is one."""
    found = re.search(rf"/workers/({TOKEN.pattern})/?$", worker_url or "")
    return token_hash(found.group(1)) if found else None
