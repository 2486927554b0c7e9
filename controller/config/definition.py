"""Configuration keys: each is declared once, in the model of its section, with `key(...)`.

Validation, error messages, Pulsar's names, `conf/ballast.yaml` and `docs/configuration.md` all derive from that
declaration. A `Definition` gives access to it.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo

from controller.config.yaml_text import yaml_value

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

PULSAR = "Pulsar's default"
DESIGN = "design"


class Section(BaseModel):
    """A section of the configuration file. It is strict: `"10"` is not a number and `true` is not 1."""

    model_config = STRICT


@dataclass(frozen=True, slots=True)
class PulsarName:
    """Pulsar's name of a setting. Pulsar's value times `factor` is ours; `unit`: Pulsar's unit if it differs."""

    name: str
    factor: int = 1
    unit: str = ""
    misspelling_of: str = ""  # Pulsar's rule: only read while the correctly spelt name is exactly 1.0


def key(
    default: Any,
    doc: str,
    *,
    source: str,
    unit: str = "",
    lo: float | None = None,
    hi: float | None = None,
    allowed: str = "",
    pulsar: tuple[PulsarName, ...] = (),
    pattern: str | None = None,
    is_path: bool = False,
    path_entries: tuple[str, ...] = (),
) -> Any:
    """Declare a key: default, a line of documentation, source of the default, unit, closed range, Pulsar's names.

    `allowed`: a description of what `pattern` or a custom type accepts; ranges and choices need none. `is_path`: the
    value is a path or an address (`controller.config.places`); `path_entries`: keys of a mapping whose values are.
    """
    extra: dict[str, Any] = {"unit": unit, "source": source, "lo": lo, "hi": hi, "allowed": allowed, "pulsar": pulsar}
    extra |= {"is_path": is_path, "path_entries": path_entries}
    return Field(default, ge=lo, le=hi, pattern=pattern, description=doc, json_schema_extra={"ballast": extra})


@dataclass(frozen=True)
class Definition:
    """One key, read from the model of its section."""

    section: str
    name: str
    field: FieldInfo

    @property
    def path(self) -> str:
        """`section.name`, as it is written on the command line and in messages."""
        return f"{self.section}.{self.name}"

    @cached_property
    def _extra(self) -> Mapping[str, Any]:
        extra = self.field.json_schema_extra
        assert isinstance(extra, dict), f"{self.path} is not declared with key()"
        return extra["ballast"]  # type: ignore[return-value]

    @property
    def default(self) -> Any:
        """The value if no layer sets the key."""
        return self.field.default

    @property
    def doc(self) -> str:
        """What the key does, in one line."""
        return self.field.description or ""

    @property
    def unit(self) -> str:
        """Unit of the value; empty for names and switches."""
        return str(self._extra["unit"])

    @property
    def source(self) -> str:
        """Where the default comes from."""
        return str(self._extra["source"])

    @property
    def pulsar(self) -> tuple[PulsarName, ...]:
        """Pulsar's names of the key."""
        return tuple(self._extra["pulsar"])

    @property
    def is_path(self) -> bool:
        """Whether the value is a path or an address."""
        return bool(self._extra["is_path"])

    @property
    def path_entries(self) -> tuple[str, ...]:
        """Keys of its mapping whose values are paths."""
        return tuple(self._extra["path_entries"])

    @cached_property
    def optional(self) -> bool:
        """Whether the value may be empty."""
        return type(None) in _members(self.field.annotation)

    @cached_property
    def base(self) -> Any:
        """The type without None."""
        members = [m for m in _members(self.field.annotation) if m is not type(None)]
        return get_args(members[0])[0] if get_origin(members[0]) is Annotated else members[0]

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping, which layers extend instead of replacing it."""
        return get_origin(self.base) is dict

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        annotated: Any = Annotated[self.field.annotation, self.field]
        return TypeAdapter(annotated, config=ConfigDict(strict=True, allow_inf_nan=False))

    def validate(self, value: object) -> Any:
        """The value in the type of the model. Raises pydantic's ValidationError."""
        if value == "" and self.optional:
            value = None
        if value is None and self.is_mapping:
            value = {}
        return self._adapter.validate_python(value)

    def from_text(self, text: str) -> object:
        """Parse a value from the environment or the command line: as YAML, unless the key takes text."""
        if self.base is str or get_origin(self.base) is Literal:
            return text
        return yaml_value(text)

    def describe_allowed(self, factor: int = 1, unit: str = "") -> str:
        """What the key accepts, in words; with a factor, in Pulsar's unit."""
        words, unit = str(self._extra["allowed"]), unit or self.unit
        if not words:
            words = self._type_in_words(factor) + (f" ({unit})" if unit else "")
        return words + (", or empty" if self.optional else "")

    def _type_in_words(self, factor: int) -> str:
        if self.base is bool:
            return "true or false"
        if get_origin(self.base) is Literal:
            return "one of " + ", ".join(map(str, get_args(self.base)))
        noun = "a whole number" if self.base is int else "a number"
        lo, hi = self._extra["lo"], self._extra["hi"]
        low = None if lo is None else math.ceil(lo / factor) if factor != 1 else lo
        high = None if hi is None else hi // factor if factor != 1 else hi
        if low is not None and high is not None:
            return f"{noun} from {_plain(low)} to {_plain(high)}"
        return f"{noun} of at least {_plain(low)}" if low is not None else noun


def definitions_of(settings: type[BaseModel]) -> dict[str, Definition]:
    """Every key of every section of the model, by path, in order of declaration."""
    result = {}
    for section, info in settings.model_fields.items():
        model = info.annotation
        if isinstance(model, type) and issubclass(model, Section):
            for name, field in model.model_fields.items():
                definition = Definition(section, name, field)
                result[definition.path] = definition
    return result


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 1e6 else f"{int(number)}"
