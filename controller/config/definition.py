"""What a configuration key is: declared once, in its section's model, with `key(...)`.

From that one declaration come validation, the error line, Pulsar's names, `conf/ballast.yaml` and
`docs/configuration.md`. A `Definition` is the declaration read back.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

PULSAR = "Pulsar's default"
DESIGN = "design"


class Section(BaseModel):
    """A section of the configuration file. Strict: `"10"` is no number and `true` no 1."""

    model_config = STRICT


@dataclass(frozen=True, slots=True)
class PulsarName:
    """A name Pulsar gives the same setting. Its value times `factor` is ours; `unit` is Pulsar's if another."""

    name: str
    factor: int = 1
    unit: str = ""
    misspelling_of: str = ""  # Pulsar's rule: read only while the well-spelt one is exactly 1.0


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
    """Declare a key: default, one documentation line, where the default comes from, unit, closed range, Pulsar's names.

    `allowed` says in words what `pattern` or a custom type accepts; ranges and choices put themselves into words.
    `is_path`: a place on the disk or an address (`controller.config.places`); `path_entries`: what is one in a mapping.
    """
    extra: dict[str, Any] = {"unit": unit, "source": source, "lo": lo, "hi": hi, "allowed": allowed, "pulsar": pulsar}
    extra |= {"is_path": is_path, "path_entries": path_entries}
    return Field(default, ge=lo, le=hi, pattern=pattern, description=doc, json_schema_extra={"ballast": extra})


@dataclass(frozen=True)
class Definition:
    """One key, read back from its section's model."""

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
        """The value when no layer names the key."""
        return self.field.default

    @property
    def doc(self) -> str:
        """One line on what it does."""
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
        """Pulsar's names for it."""
        return tuple(self._extra["pulsar"])

    @property
    def is_path(self) -> bool:
        """Whether it is a place on the disk or an address."""
        return bool(self._extra["is_path"])

    @property
    def path_entries(self) -> tuple[str, ...]:
        """Names in its mapping that are places on the disk."""
        return tuple(self._extra["path_entries"])

    @cached_property
    def optional(self) -> bool:
        """Whether it may be left empty."""
        return type(None) in _members(self.field.annotation)

    @cached_property
    def base(self) -> Any:
        """The type without None."""
        members = [m for m in _members(self.field.annotation) if m is not type(None)]
        return get_args(members[0])[0] if get_origin(members[0]) is Annotated else members[0]

    @property
    def is_mapping(self) -> bool:
        """Whether it is passed through as names and values (layers add to it instead of replacing it)."""
        return get_origin(self.base) is dict

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        annotated: Any = Annotated[self.field.annotation, self.field]
        return TypeAdapter(annotated, config=ConfigDict(strict=True, allow_inf_nan=False))

    def validate(self, value: object) -> Any:
        """The value as the model will hold it; raises pydantic's ValidationError."""
        if value == "" and self.optional:
            value = None
        if value is None and self.is_mapping:
            value = {}
        return self._adapter.validate_python(value)

    def from_text(self, text: str) -> object:
        """A value from the environment or the command line: text stays text where text is wanted, else it is YAML."""
        if self.base is str or get_origin(self.base) is Literal:
            return text
        return yaml_value(text)

    def allowed(self, factor: int = 1, unit: str = "") -> str:
        """What the key accepts, in words; in Pulsar's unit when a factor is given."""
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


def yaml_value(text: str) -> object:
    """The YAML value of one line of text, or the text itself where that is no YAML."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


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
