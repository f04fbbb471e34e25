"""The token that our API and page are shown: the user's own, or a short-lived one of a ServiceAccount."""

import base64
import contextlib
import json
from datetime import timedelta

from fleetagent.errors import CannotStart, NotAllowed
from fleetagent.plugin.apiserver import ApiServer, part
from fleetagent.plugin.failures import NotFound
from fleetagent.plugin.person import Person

LASTING = timedelta(hours=1)
ACCOUNT = "system:serviceaccount:"
HOW = (
    "the kubeconfig has no token (a client certificate cannot be shown to the page): name a ServiceAccount that you "
    "may get a token of by --as-service-account [NAMESPACE/]NAME"
)


def token_for_web(person: Person) -> str:
    """The kubeconfig's own token, a plugin's too; with --as-service-account a fresh one of that account."""
    if person.args.as_service_account is not None:
        return _requested(person, person.args.as_service_account)
    token = person.login.token()
    if token is None:
        raise CannotStart(HOW)
    return token


def short_token(person: Person) -> str:
    """One that ends within the hour, where that can be had; else as `token_for_web`."""
    token = token_for_web(person)
    if person.args.as_service_account is None and (account := account_of(token)) is not None:
        with contextlib.suppress(NotAllowed, NotFound):  # then the long one must do
            return issued(person.kubernetes, *account, LASTING)
    return token


def account_of(token: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount whose token this is; None where it says nothing of the kind."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        namespace, name = str(claims["sub"]).removeprefix(ACCOUNT).split(":")
    except (ValueError, LookupError, TypeError):
        return None
    return namespace, name


def _requested(person: Person, account: str) -> str:
    namespace, slash, name = account.rpartition("/")
    return issued(person.kubernetes, namespace if slash else person.namespace, name, LASTING)


def issued(kubernetes: ApiServer, namespace: str, name: str, lasting: timedelta) -> str:
    """A TokenRequest for a ServiceAccount; the API server says whether the user may."""
    path = f"/api/v1/namespaces/{part(namespace)}/serviceaccounts/{part(name)}/token"
    spec = {"expirationSeconds": int(lasting.total_seconds())}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(kubernetes.call("POST", path, body)["status"]["token"])
