"""The CRD: one truth in three places, and nothing in it without a bound or a word of explanation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from fleetagent.domain.resource import FleetAgentSpec, FleetAgentStatus, crd, crd_yaml

REPOSITORY = Path(__file__).parents[3]
SCHEMA = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def parts(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema node below this one, with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from parts(schema[key], f"{path}[]")


NODES = [*parts(SCHEMA["properties"]["spec"], "spec"), *parts(SCHEMA["properties"]["status"], "status")]


@pytest.mark.parametrize("copy", ["crds/fleetagents.yaml", "charts/fleetagent/files/fleetagents.yaml"])
def test_each_copy_is_what_the_models_give_byte_for_byte(copy: str) -> None:
    assert (REPOSITORY / copy).read_text() == crd_yaml(), "run `make crd`"


def test_the_yaml_says_what_the_definition_says() -> None:
    assert yaml.safe_load(crd_yaml()) == crd()


def test_a_key_that_go_would_take_for_a_boolean_is_quoted() -> None:
    assert "'n':" in crd_yaml()


def test_every_field_explains_itself() -> None:
    mute = [path for path, node in NODES if not node.get("description") and not path.endswith("[]")]

    assert mute == []


def test_every_string_list_and_map_has_a_maximum() -> None:
    def bounded(node: dict[str, Any]) -> bool:
        if node.get("type") == "string":
            return "maxLength" in node or "enum" in node
        if node.get("type") == "array":
            return "maxItems" in node
        return "additionalProperties" not in node or "maxProperties" in node

    assert [path for path, node in NODES if not bounded(node)] == []


def test_every_number_of_the_spec_has_both_bounds() -> None:
    numbers = [(path, n) for path, n in NODES if path.startswith("spec") and n.get("type") in {"integer", "number"}]

    free = [path for path, node in numbers if not {"minimum", "maximum"} <= node.keys()]

    assert [path for path in free if ".model.parameters." not in path] == []


def test_every_rule_has_a_sentence_for_the_person_who_is_refused() -> None:
    rules = [(path, rule) for path, node in NODES for rule in node.get("x-kubernetes-validations", ())]

    assert len(rules) >= 40
    assert [path for path, rule in rules if rule["message"].startswith("must ") or len(rule["message"]) < 15] == []


def test_only_what_was_agreed_on_is_required() -> None:
    required = {
        f"{path}.{name}" for path, node in NODES for name in node.get("required", ()) if path.startswith("spec")
    }
    optional_parts = ("spec.pause.", "spec.alerts.", "spec.demand.", "Ref.")

    assert {path for path in required if not any(part in path for part in optional_parts)} == {
        "spec.target",
        "spec.target.proofsPerHour",
        "spec.model",
        "spec.model.baseURL",
        "spec.model.name",
        "spec.budget",
        "spec.budget.fleetUsdPerHour",
        "spec.fleet",
        "spec.fleet.vast",
        "spec.fleet.vast.apiKeySecretRef",
        "spec.fleet.vast.instance",
        "spec.fleet.vast.instance.image",
        "spec.demand",
    }


def test_the_default_of_a_part_is_the_defaults_of_its_fields() -> None:
    for path, node in NODES:
        if "default" in node and "properties" in node:
            fields = {name: part["default"] for name, part in node["properties"].items() if "default" in part}
            assert node["default"] == fields, path


@pytest.mark.parametrize(("model", "part"), [(FleetAgentSpec, "spec"), (FleetAgentStatus, "status")])
def test_the_schema_names_every_field_of_the_models(model: type[BaseModel], part: str) -> None:
    aliases = {field.alias for field in model.model_fields.values()}

    assert aliases == set(SCHEMA["properties"][part]["properties"])


def test_the_moment_of_the_next_run_is_no_date_column_since_those_call_the_future_invalid() -> None:
    columns = {column["name"]: column for column in crd()["spec"]["versions"][0]["additionalPrinterColumns"]}

    assert columns["Next run"]["type"] == "string"
    assert columns["Last run"]["type"] == "date"
