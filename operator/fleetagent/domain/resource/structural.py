"""A pydantic model's JSON schema, turned into the structural schema that a CustomResourceDefinition wants."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from fleetagent.domain.resource.values import CudaVersion, write_duration, write_number

Schema = dict[str, Any]

_KEPT = (
    *("type", "format", "default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems"),
    *("maxItems", "minProperties", "maxProperties", "required"),
)


def structural(model: type[BaseModel]) -> Schema:
    """The model's schema without references, unions with null, or titles, and with parents' defaults spelled whole."""
    schema = model.model_json_schema(schema_generator=_WithOurDefaults)
    return _Converter(schema.get("$defs", {})).convert(schema)


class _WithOurDefaults(GenerateJsonSchema):
    """Writes defaults as they look on the wire. A part's own default is a mark, filled in by `_whole_default`."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, BaseModel):
            return {}
        if isinstance(dft, timedelta):
            return write_duration(dft)
        if isinstance(dft, CudaVersion):
            return str(dft)
        return write_number(dft) if isinstance(dft, Decimal) else super().encode_default(dft)


class _Converter:
    """Walks a schema from the leaves up, so that a parent finds its children's defaults ready."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, schema: Schema) -> Schema:
        schema = self._resolved(schema)
        out: Schema = {"description": schema["description"]} if "description" in schema else {}
        out |= {key: schema[key] for key in _KEPT if key in schema}
        out |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        if "items" in schema:
            out["items"] = self.convert(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            out["additionalProperties"] = self.convert(schema["additionalProperties"])
        if "properties" in schema:
            out["properties"] = {name: self._property(name, part) for name, part in schema["properties"].items()}
        if "default" in out and out["default"] in (None, []):
            del out["default"]  # the same as absent
        if "default" in out and "properties" in out:
            out["default"] = _whole_default(out)
        return out

    def _property(self, name: str, schema: Schema) -> Schema:
        """A property whose rules speak of it by name."""
        out = self.convert(schema)
        if found := out.get("x-kubernetes-validations"):
            out["x-kubernetes-validations"] = [
                rule | {"message": f"{name} {rule['message']}"} if rule["message"].startswith("must ") else rule
                for rule in found
            ]
        return out

    def _resolved(self, schema: Schema) -> Schema:
        """Follow a reference, and drop the null of an optional; what stands beside them wins."""
        if "$ref" in schema:
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self._resolved(self._definitions[schema["$ref"].rsplit("/", 1)[1]]) | beside
        if "anyOf" in schema:
            (inner,) = (option for option in schema["anyOf"] if option.get("type") != "null")
            beside = {key: value for key, value in schema.items() if key != "anyOf"}
            return self._resolved(inner) | beside
        return schema


def _whole_default(schema: Schema) -> Schema:
    """All defaults of the children: the API server gives them none when their parent is absent."""
    return {name: part["default"] for name, part in schema["properties"].items() if "default" in part}
