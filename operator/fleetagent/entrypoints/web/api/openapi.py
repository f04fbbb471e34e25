"""The OpenAPI 3.1 document, made of the same table and the same models that serve: the two cannot differ."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from fleetagent.domain.patches import VERBS
from fleetagent.domain.records import HIGHEST_ID
from fleetagent.domain.resource import VERSION
from fleetagent.domain.resource.values import DNS_NAME_PATTERN
from fleetagent.entrypoints.web.api.endpoints import JSON, OF_AN_AGENT, Endpoint
from fleetagent.entrypoints.web.api.table import ENDPOINTS
from fleetagent.entrypoints.web.names import LONGEST_NAME

BASE = "/api/v1"
REF = "#/components/schemas/{model}"

DESCRIPTION = """\
What FleetAgents have done, do now and what it cost; and the verbs that steer them. The API server's RBAC decides: \
reading needs `get` on fleetagents in the namespace, a verb needs `patch`. Money is USD as a decimal in a string, \
times are UTC; a field without a value is left out. A page with a `next` goes on with `?after=<next>`, even where a \
filter has left it without any item."""

ERRORS: Mapping[str, str] = {
    "400": "The address or body asks for what cannot be; the message names the parameter or field",
    "401": "No token, or one that the API server does not know (any more)",
    "403": "The caller may not do this in the namespace, or there is no such namespace",
    "404": "There is no such agent, run or session",
    "409": "Others have changed the resource each time in between",
    "413": "The body is too large",
    "429": "Too many tokens were tried from this address",
    "503": "Database or API server are not there: try again after Retry-After seconds",
}
FOR_READING = ("400", "401", "403", "404", "429", "503")
ERROR: Mapping[str, Any] = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "One word in CamelCase."},
        "message": {"type": "string", "description": "One sentence with the remedy."},
    },
}
PATH_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "namespace": {"type": "string", "pattern": DNS_NAME_PATTERN, "maxLength": 63},
    "name": {"type": "string", "pattern": DNS_NAME_PATTERN, "maxLength": LONGEST_NAME},
    "id": {"type": "integer", "minimum": 0, "maximum": HIGHEST_ID},
}


@cache
def document_json() -> bytes:
    """As it is served."""
    return json.dumps(document(), indent=1).encode()


def document() -> dict[str, Any]:
    """Everything below `/api/v1`."""
    paths: dict[str, Any] = {"/openapi.json": {"get": _this_document()}}
    for endpoint in ENDPOINTS:
        paths[endpoint.path] = {"get": _operation(endpoint)}
    for verb in VERBS:
        paths[f"{OF_AN_AGENT}/{verb}"] = {"post": _verb(verb)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "FleetAgent", "version": VERSION, "description": DESCRIPTION},
        "servers": [{"url": BASE}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {**_schemas(), "Error": ERROR},
            "responses": {
                status: _answer(said, JSON, {"$ref": REF.format(model="Error")}) for status, said in ERRORS.items()
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A Kubernetes token"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "fleetagent",
                    "description": "The page's session; verbs then need its X-CSRF-Token as well",
                },
            },
        },
    }


def _this_document() -> dict[str, Any]:
    ok = _answer("OpenAPI 3.1", JSON, {"type": "object"})
    return {
        "operationId": "openapi",
        "summary": "This document",
        "responses": {"200": ok, **_errors("401", "429", "503")},
    }


def _operation(endpoint: Endpoint[Any]) -> dict[str, Any]:
    schema = {"type": "string"} if endpoint.answer is None else {"$ref": REF.format(model=_names()[endpoint.answer])}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*_in_the_path(endpoint.path), *_in_the_query(endpoint)],
        "responses": {"200": _answer(endpoint.summary, endpoint.media_type, schema), **_errors(*FOR_READING)},
    }


def _verb(verb: str) -> dict[str, Any]:
    body = {"$ref": REF.format(model=VERBS[verb].__name__)}
    written = {
        "type": "object",
        "required": ["verb", "written"],
        "properties": {"verb": {"const": verb}, "written": {"type": "object", "description": "The merge patch."}},
    }
    summary = (VERBS[verb].__doc__ or verb).splitlines()[0]
    return {
        "operationId": verb,
        "summary": summary,
        "parameters": _in_the_path(OF_AN_AGENT),
        "requestBody": {"content": {JSON: {"schema": body}}},
        "responses": {"202": _answer("Written: the operator takes it up at once", JSON, written), **_errors(*ERRORS)},
    }


def _in_the_path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name]} for name in names]


def _in_the_query(endpoint: Endpoint[Any]) -> list[dict[str, Any]]:
    schema = _without_null(endpoint.query.model_json_schema(ref_template=REF, mode="validation"))
    found = []
    for name, field in schema.get("properties", {}).items():
        described = {"description": field.pop("description")} if "description" in field else {}
        found.append({"name": name, "in": "query", **described, "schema": _inline(field, schema.get("$defs", {}))})
    return found


def _inline(field: Any, definitions: Mapping[str, Any]) -> Any:
    """Queries have enums alone for parts."""
    if isinstance(field, dict):
        if "$ref" in field:
            return definitions[field["$ref"].rpartition("/")[2]]
        return {key: _inline(value, definitions) for key, value in field.items()}
    return field


@cache
def _names() -> Mapping[Any, str]:
    """What each answer is called among the schemas."""
    answers = {each.answer for each in ENDPOINTS if each.answer is not None}
    return {answer: re.sub(r"Page\[(\w+)\]", r"PageOf\1", answer.__name__) for answer in answers}


def _schemas() -> dict[str, Any]:
    answers = [(answer, "serialization") for answer in sorted(_names(), key=lambda each: _names()[each])]
    _, made = models_json_schema([*answers, *((verb, "validation") for verb in VERBS.values())], ref_template=REF)  # type: ignore[list-item]
    renamed = json.loads(re.sub(r"\bPage_(\w+?)_(?=\W)", r"PageOf\1", json.dumps(made["$defs"])))
    schemas: dict[str, Any] = _without_null(renamed)
    return schemas


def _without_null(schema: Any) -> Any:
    """On the wire, what has no value is left out: nothing is ever null."""
    if isinstance(schema, list):
        return [_without_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _without_null(value) for key, value in schema.items() if key != "title" and not _is_none(key, value)}
    some = [each for each in kept.get("anyOf", ()) if each != {"type": "null"}]
    if "anyOf" in kept and len(some) == 1:
        del kept["anyOf"]
        kept = {**some[0], **kept}
    return kept


def _is_none(key: str, value: Any) -> bool:
    return key == "default" and value is None


def _answer(said: str, media_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": said, "content": {media_type: {"schema": schema}}}


def _errors(*status: str) -> dict[str, Any]:
    return {each: {"$ref": f"#/components/responses/{each}"} for each in status}
