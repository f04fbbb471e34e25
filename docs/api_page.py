"""The page of the API, from the OpenAPI document that is served."""
# ruff: noqa: INP001 - docs/ is no package

from collections.abc import Iterator, Mapping
from typing import Any

from writing import code, table

from fleetagent.domain.patches import VERBS
from fleetagent.entrypoints.web.api.endpoints import OF_AN_AGENT
from fleetagent.entrypoints.web.api.openapi import BASE, ERRORS, document
from fleetagent.entrypoints.web.api.queries import MOST_ROWS

Schema = Mapping[str, Any]

HEAD = f"""\
# API

JSON over HTTP on `FLEETAGENT_WEB_LISTEN`, below `{BASE}`; [how to use it](../how-to/api.md). The same as an OpenAPI 3.1
document: `{BASE}/openapi.json`.

Each request carries `Authorization: Bearer <Kubernetes token>`. The API server decides with that token: who may `get`
fleetagents in a namespace reads, who may `patch` them steers. A namespace that the caller may not read answers as one
that there is not: 403. The page's own session cookie works too; verbs then need its `X-CSRF-Token`.

Money is USD as a decimal in a string; times are UTC, `2026-11-29T12:00:00Z`; rates are proofs per hour; tokens are the
model server's counts unless the name says `estimated`. A field without a value is left out. Nothing is cached.
"""
PAGES = f"""\
A list that can be long answers `{{"items": […], "next": "…"}}`, up to `limit` items (50, at most {MOST_ROWS}). Ask
for more with the same parameters and `after=<next>`; without `next` it was all. Where a filter lets little pass, so
many rows are looked through and no more: then there may be fewer items, even none, and still a `next`. `since` and
`until` speak of when a run, session or action began, a machine was asked for, an alert was raised, a message was said.
"""
EXPORT = """\
## Export of a session

`application/jsonl`: a message a line, from the first to the last, with `role`, `content`, `tool_calls` and
`tool_call_id` as chat-completions servers take them. The system message is no part of it: it is made anew from the
resource for each request. The extra key `fleetagent` holds `seq`, `runID`, `at`, `kind`, `estimatedTokens`, and if
there are any `historyContent` (what later runs see of it) and `leftPromptBecause`. An export that has to end early (the
database is away, the right to read was taken) says so in its last line, which has `error` and `message` and no `role`.
"""


def api_page() -> str:
    """What can be read and said, with which parameters, and what comes back."""
    described = document()
    reads = {path: each["get"] for path, each in described["paths"].items() if "get" in each}
    of_one = f"`{BASE}{OF_AN_AGENT}`"
    rows = [(code(_short(path)), read["summary"], _parameters(read), _answer(read)) for path, read in reads.items()]
    verbs = [
        (code(verb), described["paths"][f"{OF_AN_AGENT}/{verb}"]["post"]["summary"], _body(verb)) for verb in VERBS
    ]
    return "\n".join(
        [
            HEAD,
            f"## What can be read\n\n`GET`; `…` stands for {of_one}.\n",
            table(("address", "gives", "parameters", "answer"), rows),
            PAGES,
            table(("parameter", "values", "meaning"), sorted(set(_each_parameter(reads.values())))),
            EXPORT,
            f"## Verbs\n\n`POST` below {of_one} with a JSON body; 202 with the merge patch that was written.\n",
            table(("verb", "does", "body"), verbs),
            '## Errors\n\nThe body is `{"error": "<word>", "message": "<one sentence with the remedy>"}`.\n',
            table(("status", "meaning"), ERRORS.items()),
            "## Answers\n",
            *_schemas(described["components"]["schemas"]),
        ]
    )


def _short(path: str) -> str:
    return path.replace(OF_AN_AGENT, "…") if path.startswith(OF_AN_AGENT) else f"{BASE}{path}"


def _in_query(operation: Schema) -> Iterator[Schema]:
    return (p for p in operation.get("parameters", ()) if p["in"] == "query")


def _parameters(operation: Schema) -> str:
    return ", ".join(code(p["name"]) for p in _in_query(operation))


def _each_parameter(operations: Any) -> Iterator[tuple[str, str, str]]:
    for operation in operations:
        for each in _in_query(operation):
            yield code(each["name"]), _values(each["schema"]), each.get("description", "")


def _values(schema: Schema) -> str:
    if schema.get("type") == "array":
        return _values(schema["items"])
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if "maximum" in schema and schema["maximum"] < 2**53:
        default = f", else {schema['default']}" if "default" in schema else ""
        return f"{schema['minimum']} to {schema['maximum']}{default}"
    if schema.get("format") == "date-time":
        return "a moment"
    return {"boolean": "`true`, `false`", "integer": "a number"}.get(schema["type"], "text")


def _answer(operation: Schema) -> str:
    (content,) = operation["responses"]["200"]["content"].items()
    media_type, schema = content
    return _type(schema["schema"]) if "$ref" in schema["schema"] else code(media_type)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"page of {_link(name[6:])}" if name.startswith("PageOf") else _link(name)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    return str(schema.get("format") or schema.get("type", "anything"))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _body(verb: str) -> str:
    schema = VERBS[verb].model_json_schema(by_alias=True)
    required = schema.get("required", ())
    fields = [
        f"{code(name)}{'' if name in required else ' (optional)'}: {field.get('description', '')}".rstrip(": ")
        for name, field in schema.get("properties", {}).items()
    ]
    return " · ".join(fields) or code("{}")


def _schemas(schemas: Mapping[str, Schema]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        if not name.endswith(("View", "Row", "PhaseAt")) or name.startswith("PageOf"):
            continue
        rows = [
            (
                code(field),
                _type(part),
                "" if field in schema.get("required", ()) else "may be absent",
                part.get("description", ""),
            )
            for field, part in schema["properties"].items()
        ]
        yield f"### {name}\n\n{schema['description']}\n"
        yield table(("field", "type", "", "meaning"), rows)
