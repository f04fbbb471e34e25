"""How the models meet JSON: camelCase outside, snake_case with units inside, what is unknown passed over."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

ACRONYMS = {"url": "URL", "gb": "GB", "id": "ID"}


def wire_name(python_name: str) -> str:
    """`min_gpu_ram_gb` is `minGpuRamGB` on the wire, `last_run_id` is `lastRunID`, and a lone `id` stays `id`."""
    first, *rest = python_name.split("_")
    return first + "".join(ACRONYMS.get(word, word.capitalize()) for word in rest)


class Wire(BaseModel):
    """A frozen part of the resource. Its attribute docstrings are what `kubectl explain` shows."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",  # the API server prunes what it does not know; a newer CRD's fields are not our business either
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        """A null counts as a field left out, as it does for the API server."""
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """The model of this JSON object; pydantic's ValidationError if it is none."""
        return cls.model_validate(data)

    def to_wire(self) -> dict[str, Any]:
        """The JSON object to send; what is None is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL rules for a model or a field, each with the sentence that a refused user reads."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
