"""The page about the resource: every field of spec and status, from the CustomResourceDefinition itself."""
# ruff: noqa: INP001 - docs/ is no package

import json
from collections.abc import Iterator, Mapping
from typing import Any

from writing import code, table

from fleetagent.domain.resource import GROUP, KIND, PLURAL, VERSION, Annotation, crd
from fleetagent.domain.resource.values import USD_PATTERN

Schema = Mapping[str, Any]

HEAD = f"""\
# The {KIND} resource

`apiVersion: {GROUP}/{VERSION}`, `kind: {KIND}`, plural `{PLURAL}`, short name `fa`, namespaced. `kubectl
explain fleetagent.spec` shows the same fields. A bad value is refused by the API server with a sentence that names the
field; a field that the definition does not know is dropped, and `kubectl` warns of it.

Durations are written like `90s`, `5m`, `1h30m`, `90d`. Money is a text: `"4.00"`, not `4.00`.
"""

ANNOTATIONS: Mapping[Annotation, str] = {
    Annotation.REQUESTED_AT: "Run now. Starts a run by itself.",
    Annotation.RESET_REQUESTED_AT: "Archive the conversation and start a new one. Starts no run by itself.",
    Annotation.MESSAGE: "Said to the agent as the operator's words; up to 2,000 characters. Starts a run.",
    Annotation.ACKNOWLEDGE: "`alert-17`, or `alert-17: a comment`: closes the alert and tells the agent. Starts a run.",
    Annotation.APPROVE: "In mode `Approve`: [actions that may happen](../how-to/approve.md), `action-42,action-43`.",
    Annotation.REJECT: "As `approve`: actions that shall not happen.",
    Annotation.ABANDON: "While the resource is deleted: give up machines that cannot be destroyed. They bill on.",
}

LONGEST_RULE = 120
BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " of these"),
)


def resource_page() -> str:
    """Annotations, spec, status, rules, printer columns."""
    version = crd()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    columns = [(c["name"], code(c["jsonPath"]), c["description"]) for c in version["additionalPrinterColumns"]]
    return "\n".join(
        [
            HEAD,
            "## Annotations\n",
            "Each new value is served once, the last one always. What was served stands in `.status.lastHandled…`.\n",
            table(("annotation", "what a new value does"), ((code(a), ANNOTATIONS[a]) for a in Annotation)),
            "## spec\n",
            _fields(schema["spec"], "spec"),
            "## Rules across fields\n",
            "Checked by the API server, beside the bounds above.\n",
            table(("field", "refused with", "rule (CEL)"), _rules(schema["spec"], "spec")),
            "## status\n",
            "Written by the operator alone. A figure that is not known yet is absent.\n",
            _fields(schema["status"], "status"),
            "## Columns of `kubectl get fleetagents`\n",
            table(("column", "from", "meaning"), columns),
        ]
    )


def _fields(schema: Schema, path: str) -> str:
    rows = [
        (
            code(where),
            _type(part),
            "required" if required else _default(part),
            _bounds(part),
            part.get("description", ""),
        )
        for where, part, required in _walk(schema, path)
    ]
    return table(("field", "type", "default", "bounds", "meaning"), rows)


def _walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema, bool]]:
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        if _is_reserved(part):
            continue
        yield where, part, name in schema.get("required", ())
        yield from _walk(part, where)
        yield from _walk(part.get("items", {}), f"{where}[]")


def _is_reserved(part: Schema) -> bool:
    """Request parameters that stand in the schema only so that a rule can refuse them."""
    return str(part.get("description", "")).startswith("Refused here")


def _type(part: Schema) -> str:
    if "enum" in part:
        return " · ".join(map(code, part["enum"]))
    if part.get("format") in {"duration", "date-time"}:
        return {"duration": "duration", "date-time": "moment"}[part["format"]]
    if part.get("pattern") == USD_PATTERN:
        return "money"
    if part.get("type") == "array":
        return f"list of {_type(part['items'])}"
    if isinstance(part.get("additionalProperties"), Mapping):
        return f"map of {_type(part['additionalProperties'])}"
    return str(part.get("type", "any"))


def _default(part: Schema) -> str:
    """Objects show their parts' defaults, one field a row."""
    if "default" not in part or part.get("type") == "object":
        return ""
    return code(json.dumps(part["default"], ensure_ascii=False))


def _bounds(part: Schema) -> str:
    found = [] if _type(part) in {"duration", "moment", "money"} else list(_ranges(part))
    found += [r["message"].partition(" must be ")[2] for r in _own_rules(part) if " must be between " in r["message"]]
    if part.get("x-kubernetes-list-type") == "set":
        found.append("each once")
    return "; ".join(found)


def _ranges(part: Schema) -> Iterator[str]:
    for least, most, unit in BOUNDS:
        if least in part and most in part:
            both = str(part[least]) if part[least] == part[most] else f"{part[least]} to {part[most]}"
            yield f"{'exactly ' if part[least] == part[most] else ''}{both}{unit}"
        elif least in part or most in part:
            yield f"at least {part[least]}{unit}" if least in part else f"at most {part[most]}{unit}"


def _own_rules(part: Schema) -> list[Mapping[str, str]]:
    return list(part.get("x-kubernetes-validations", ()))


def _rules(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    for rule in _own_rules(schema):
        if " must be between " not in rule["message"]:
            yield code(path), rule["message"], code(rule["rule"]) if len(rule["rule"]) <= LONGEST_RULE else "a pattern"
    for name, part in schema.get("properties", {}).items():
        yield from _rules(part, f"{path}.{name}")
