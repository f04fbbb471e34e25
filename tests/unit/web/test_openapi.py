"""The OpenAPI document: it describes what is served, all of it and nothing else."""

import json
from typing import Any, cast

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Mount, Route

from fleetagent.domain.patches import VERBS
from fleetagent.entrypoints.web.api.openapi import document
from fleetagent.entrypoints.web.api.table import ENDPOINTS
from support.one_run import Server


@pytest.fixture
def server() -> Server:
    return Server()


def test_the_document_is_valid_and_describes_every_route_that_is_served(server: Server) -> None:
    described = document()
    OpenAPIV31SpecValidator(cast("Any", described)).validate()

    (mount,) = (route for route in server.app.routes if isinstance(route, Mount))
    served = {
        (route.path, method.lower())
        for route in mount.routes or ()
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == {(path, method) for path, operations in described["paths"].items() for method in operations}
    assert len(served) == len(ENDPOINTS) + len(VERBS) + 1
    assert "null" not in json.dumps(described)


async def test_the_document_is_served_as_it_is_made(server: Server) -> None:
    assert (await server.get("/api/v1/openapi.json")).json() == json.loads(json.dumps(document()))
