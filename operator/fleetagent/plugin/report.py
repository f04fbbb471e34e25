"""`report`: what a bug report needs, in one archive, without what nobody else should read."""

import io
import os
import platform
import tarfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fleetagent.errors import BadRequest, FleetAgentError
from fleetagent.plugin.apiserver import Json, part
from fleetagent.plugin.forward import Service, forwarded_from
from fleetagent.plugin.person import Person
from fleetagent.plugin.redaction import hidden_in, hidden_lines
from fleetagent.plugin.terminal import written
from fleetagent.plugin.web import below, open_web

ROWS = 50
LOG_LINES = 2000
CONTENTS = "CONTENTS.txt"

Files = Mapping[str, str]
"""What stands in the archive, by name."""


def report(person: Person) -> int:
    """Write it, say what is in it and what could not be had; an archive that is there already stays as it is."""
    now = person.now()
    path = Path(person.args.to or f"fleetagent-{person.agent.name}-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    if path.exists():
        raise BadRequest(f"{path} is there already: name another file by --to")
    files, missing = _gathered(person)
    secrets = tuple(filter(None, [person.login.token()]))
    files = {name: hidden_lines(text, secrets) for name, text in files.items()}
    contents = hidden_lines(_contents(files, missing), secrets)
    _write(path, {CONTENTS: contents, **files}, now)
    for each in (f"{path} holds:", *contents.splitlines()):
        person.terminal.say(each)
    person.terminal.say("What looks like a secret was taken out. Read it before you give it away.")
    return 0


def _gathered(person: Person) -> tuple[dict[str, str], dict[str, str]]:
    """What could be had, and of the rest why not. Without the FleetAgent itself there is nothing to report."""
    files: dict[str, str] = {}
    missing: dict[str, str] = {}
    agent = person.kubernetes.agent(person.agent)
    files["agent.yaml"] = written(hidden_in(agent), "yaml")
    for name, read in _parts(person):
        try:
            files |= read()
        except FleetAgentError as error:
            missing[name] = " ".join(str(error).split())
    return files, missing


def _parts(person: Person) -> Iterator[tuple[str, Callable[[], Files]]]:
    yield "versions", lambda: _versions(person)
    yield "events", lambda: _events(person)
    yield "operator", lambda: _operator(person, forwarded_from(person))
    yield "runs", lambda: _past(person)


def _versions(person: Person) -> Files:
    server = person.kubernetes.call("GET", "/version")
    said = {
        "kubectl-fleetagent": version("fleetagent"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "kubernetes": server.get("gitVersion"),
    }
    return {"versions.yaml": written(said, "yaml")}


def _events(person: Person) -> Files:
    names = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime")
    events = [
        {name: each.get(name) for name in names if each.get(name)} for each in person.kubernetes.events(person.agent)
    ]
    return {"events.yaml": written(events, "yaml")}


def _operator(person: Person, service: Service) -> Files:
    """Its pods and the ends of their logs. Of the environment only the names: values may be anything."""
    pods = person.kubernetes.everything(
        f"/api/v1/namespaces/{part(service.namespace)}/pods", {"labelSelector": service.selector}
    )
    files = {"operator.yaml": written([_pod(each) for each in pods], "yaml")}
    for each in pods:
        name = each["metadata"]["name"]
        path = f"/api/v1/namespaces/{part(service.namespace)}/pods/{part(name)}/log"
        try:
            text = person.kubernetes.text("GET", f"{path}?container=operator&tailLines={LOG_LINES}")
        except FleetAgentError as error:
            text = f"not readable: {error}\n"
        files[f"logs/{name}.log"] = text
    return files


def _pod(pod: Json) -> dict[str, Any]:
    spec, status = pod["spec"], pod.get("status") or {}
    return {
        "name": pod["metadata"]["name"],
        "labels": pod["metadata"].get("labels"),
        "phase": status.get("phase"),
        "conditions": status.get("conditions"),
        "containers": [
            {
                "name": each["name"],
                "image": each.get("image"),
                "args": each.get("args"),
                "env": [variable["name"] for variable in each.get("env") or ()],
                "resources": each.get("resources"),
            }
            for each in spec["containers"]
        ],
        "containerStatuses": hidden_in(status.get("containerStatuses")),
    }


def _past(person: Person) -> Files:
    with open_web(person) as web:
        of_agent = {
            "runs": web.items(below(person.agent, "/runs"), ROWS),
            "actions": web.items(below(person.agent, "/actions"), ROWS),
            "machines": web.items(below(person.agent, "/machines"), ROWS, ended=True),
            "alerts": web.items(below(person.agent, "/alerts"), ROWS),
            "wakes": web.items(below(person.agent, "/wakes"), ROWS),
            "compactions": web.get(below(person.agent, "/compactions")),
            "spend": web.get(below(person.agent, "/spend")),
        }
    return {f"{name}.json": written(hidden_in(found), "json") for name, found in of_agent.items()}


def _contents(files: Files, missing: Mapping[str, str]) -> str:
    lines = [f"  {name}  {len(text.encode()):,} bytes" for name, text in sorted(files.items())]
    lines += [f"  not in it: {name}: {why}" for name, why in missing.items()]
    return "\n".join(lines) + "\n"


def _write(path: Path, files: Files, now: datetime) -> None:
    """Readable by its owner alone; never in place of another file."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}") from error
    folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content))
