"""What kopf remembers of a resource."""

import json
from typing import Any, cast

import kopf

from fleetagent.entrypoints.handlers import Remembered
from support.manifests import a_manifest


def remembered(**changes: Any) -> str:
    body = kopf.Body(cast("kopf.RawBody", a_manifest(**changes)))
    return json.dumps(Remembered().build(body=body))


def with_annotation(name: str, value: str) -> str:
    return remembered(metadata={"annotations": {name: value}})


def test_it_is_small_however_much_people_say() -> None:
    assert len(with_annotation("fleetagent.dev/message", "x" * 200_000)) < 200
    assert len(remembered(spec={"instructions": "x" * 16_000})) < 100


def test_what_people_say_and_want_is_seen_to_change() -> None:
    assert with_annotation("fleetagent.dev/requested-at", "1") != with_annotation("fleetagent.dev/requested-at", "2")
    assert remembered(spec={"mode": "DryRun"}) != remembered()


def test_what_others_write_down_is_no_change() -> None:
    assert with_annotation("example.com/note", "x") == remembered()
