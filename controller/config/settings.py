"""`Settings`: every effective value of a process, frozen, with the origin of each.

Made by `controller.config.load.load_settings`; `Settings()` is the defaults. Picklable, so that the round worker gets
the very same values. Secrets never leave it by `dump` or `version`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PrivateAttr, SecretStr

from controller.config.definition import STRICT, Definition, definitions_of
from controller.config.sections.agent import Agent
from controller.config.sections.balancing import Broker, Shedding, Split, Steady
from controller.config.sections.control import Control, Guard, Rounds
from controller.config.sections.loads import Loads
from controller.config.sections.pacing import Pacing
from controller.config.sections.placement import Placement
from controller.config.sections.platform import Cluster, Http, Kafka, Logging, Store, Tables
from controller.config.sections.pulsar import Pulsar
from controller.config.sections.reference import Reference
from controller.config.sections.retention import Retention
from controller.config.sections.weighted import Weighted
from controller.domain.errors import without_login

HIDDEN = "***"
_SECRET = re.compile(r"passw|pasw|pwd|secret|jaas|token|credential|(private|access)[._-]?key", re.IGNORECASE)
_TOLD = re.compile(rf"({_SECRET.pattern})[^\s=:]*\s*[=:](?!\s*.?{re.escape(HIDDEN)}(?![\w*]))", re.IGNORECASE)


class Settings(BaseModel):
    """All sections. `settings.shedding.grace_period_minutes` is the key `shedding.grace_period_minutes`."""

    model_config = STRICT

    cluster: Cluster = Cluster()
    kafka: Kafka = Kafka()
    tables: Tables = Tables()
    retention: Retention = Retention()
    loads: Loads = Loads()
    control: Control = Control()
    guard: Guard = Guard()
    rounds: Rounds = Rounds()
    shedding: Shedding = Shedding()
    pacing: Pacing = Pacing()
    steady: Steady = Steady()
    weighted: Weighted = Weighted()
    split: Split = Split()
    broker: Broker = Broker()
    placement: Placement = Placement()
    pulsar: Pulsar = Pulsar()
    agent: Agent = Agent()
    store: Store = Store()
    reference: Reference = Reference()
    http: Http = Http()
    logging: Logging = Logging()

    _profile: str = PrivateAttr("")
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _written: dict[str, str] = PrivateAttr(default_factory=dict)
    _file: Path | None = PrivateAttr(None)
    _file_by: str = PrivateAttr("")

    @classmethod
    def made_of(
        cls,
        values: Mapping[str, Any],
        origins: Mapping[str, str],
        profile: str,
        written: Mapping[str, str],
        file: Path | None = None,
        file_by: str = "",
    ) -> Settings:
        """Settings of validated values by path; what is not named keeps its default.

        `written`: relative paths as they were given. `file`: the operator's; `file_by`: what named it, if not `--conf`.
        """
        sections: dict[str, dict[str, Any]] = {}
        for path, value in values.items():
            section, name = path.split(".", 1)
            sections.setdefault(section, {})[name] = value
        models = {name: cls.model_fields[name].annotation(**given) for name, given in sections.items()}  # type: ignore[misc]
        settings = cls(**models)
        settings._profile = profile
        settings._origins = dict(origins)
        settings._written = dict(written)
        settings._file, settings._file_by = file, file_by
        return settings

    @property
    def profile(self) -> str:
        """The profile they were loaded with; empty for the bare defaults."""
        return self._profile

    def value(self, path: str) -> Any:
        """The value of a key by its path, such as `loads.pane_s`."""
        section, name = path.split(".", 1)
        return getattr(getattr(self, section), name)

    def origin(self, path: str) -> str:
        """Where the value comes from: default, profile, file, environment variable or override."""
        return self._origins.get(path, "default")

    @property
    def file(self) -> Path | None:
        """The operator's file, as it was named."""
        return self._file

    @property
    def told(self) -> str:
        """What counted, in words: the file or the defaults, the profile, single values from elsewhere."""
        origins = set(self._origins.values())
        by = f" ({self._file_by})" if self._file_by else ""
        named = [
            f"file {self._file}{by}" if self._file else "defaults",
            f"profile {self._profile}" if self._profile else "",
        ]
        named += sorted(origin for origin in origins if origin.startswith("environment"))
        sets = [f"{path}={_word(self.value(path))}" for path, origin in self._origins.items() if origin == "override"]
        named.append(f"--set {', '.join(sets)}" if sets else "")
        return "; ".join(filter(None, named))

    def written(self, path: str) -> str | None:
        """A key's path as a file or the defaults have it, where that is a relative one."""
        return self._written.get(path)

    def dump(self) -> dict[str, dict[str, Any]]:
        """Every key with its effective value and origin, in order of declaration; secrets hidden."""
        return {path: {"value": _shown(self.value(path)), "origin": self.origin(path)} for path in DEFINITIONS}

    @property
    def version(self) -> str:
        """12 hex digits over the effective values (not their origins, not the secrets): equal values, equal version."""
        text = json.dumps({path: _shown(self.value(path)) for path in DEFINITIONS}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


DEFINITIONS: dict[str, Definition] = definitions_of(Settings)


def is_secret(name: str) -> bool:
    """Whether a passed-through setting of this name must not be shown."""
    return _SECRET.search(name) is not None


def tells_secret(text: str) -> bool:
    """Whether a secret's name and value may stand in a text, such as `password: x` that was read as one word."""
    return _TOLD.search(text) is not None


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: HIDDEN if _hidden(name, inner) else inner for name, inner in value.items()}
    if isinstance(value, str):
        return without_login(value)
    return list(value) if isinstance(value, tuple) else value


def _word(value: Any) -> str:
    return without_login(value) if isinstance(value, str) else json.dumps(_shown(value))


def _hidden(name: str, value: object) -> bool:
    return isinstance(value, SecretStr) or is_secret(name)
