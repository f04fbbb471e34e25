"""The user's own kubeconfig, as kubectl reads it: which API server, as whom, in which namespace."""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import list_kube_config_contexts, load_kube_config
from yaml import YAMLError

from fleetagent.errors import CannotStart

DEFAULT = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Login:
    """How the API server is reached, and the namespace that is meant where none is named."""

    configuration: Configuration
    context: str
    namespace: str
    file: str | None
    """As given by --kubeconfig; None: where kubectl looks too."""

    @property
    def server(self) -> str:
        """The API server's base URL."""
        return self.configuration.host

    def token(self) -> str | None:
        """The bearer token, a plugin's too; None where a client certificate or a password stands for the user."""
        word, _, token = (self.configuration.get_api_key_with_prefix("BearerToken") or "").partition(" ")
        return token if word == "Bearer" and token else None


def log_in(file: str | None, context: str | None) -> Login:
    """Read it. `CannotStart` says what is wrong with it, a plugin's complaint too."""
    where = file or os.environ.get("KUBECONFIG") or DEFAULT
    if not any(Path(part).expanduser().is_file() for part in where.split(os.pathsep) if part):
        raise CannotStart(f"there is no kubeconfig at {where}: name one by --kubeconfig or $KUBECONFIG")
    configuration = Configuration()
    try:
        contexts, active = list_kube_config_contexts(config_file=where)  # type: ignore[no-untyped-call]  # the client's
        named = active if context is None else next((c for c in contexts if c["name"] == context), None)
        if named is None:
            known = ", ".join(sorted(str(c["name"]) for c in contexts)) or "none"
            raise CannotStart(f"the kubeconfig has no context {context!r}; it has: {known}")
        with _complaints() as said:
            load_kube_config(where, context=context, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, YAMLError, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CannotStart(f"the kubeconfig at {where} cannot be used: {error}") from error
    if said:
        raise CannotStart(f"the kubeconfig's way to log in has failed: {'; '.join(said)}")
    configuration.retries = False
    inside = named.get("context") or {}
    return Login(configuration, str(named["name"]), str(inside.get("namespace") or "default"), file)


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the library logs instead of raising it: that a plugin has failed."""
    said: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]  # a list is enough
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield said
    finally:
        root.removeHandler(handler)
