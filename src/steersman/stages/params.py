"""The parameters of a workflow, as its file declares them."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Params(BaseModel):
    """Parameters of a workflow: each field is a --set key and a YAML key, checked before any job starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_is_true(cls, value: Any, field: ValidationInfo) -> Any:
        kind = cls.model_fields[field.field_name].annotation if field.field_name else None
        if isinstance(value, bool) and (kinds := {kind, *get_args(kind)}) & {int, float} and bool not in kinds:
            raise ValueError("true and false are no numbers")
        return value
