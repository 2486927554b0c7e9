"""`Settings`: all effective values of a process, frozen, each with its origin.

`controller.config.load.load_settings` creates them; `Settings()` has the defaults. They are picklable, so that the
round worker gets the same values. `dump` and `version` never reveal secrets.
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
from controller.config.sections.http import Http
from controller.config.sections.loads import Loads
from controller.config.sections.pacing import Pacing
from controller.config.sections.placement import PlacementSection
from controller.config.sections.platform import Cluster, Kafka, Logging, Store, Tables
from controller.config.sections.pulsar import Pulsar
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.config.sections.reference import Reference
from controller.config.sections.retention import Retention
from controller.config.sections.ui import Ui
from controller.config.sections.weighted import Weighted
from controller.domain.errors import without_login

HIDDEN = "***"
OVERRIDE = "override"  # the origin of what a command line sets
_SECRET = re.compile(
    r"passw|pasw|pass_?phrase|pwd|(?<![a-z])pw(?![a-z])|secret|jaas|token|credential|(private|access|api)[._-]?key",
    re.IGNORECASE,
)
_REVEALED = re.compile(rf"({_SECRET.pattern})[^\s=:]*\s*[=:](?!\s*.?{re.escape(HIDDEN)}(?![\w*]))", re.IGNORECASE)


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
    placement: PlacementSection = PlacementSection()
    pulsar: Pulsar = Pulsar()
    pulsar_cluster: PulsarCluster = PulsarCluster()
    agent: Agent = Agent()
    store: Store = Store()
    reference: Reference = Reference()
    http: Http = Http()
    ui: Ui = Ui()
    logging: Logging = Logging()

    _profile: str = PrivateAttr("")
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _written: dict[str, str] = PrivateAttr(default_factory=dict)
    _file: Path | None = PrivateAttr(None)
    _file_by: str = PrivateAttr("")

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Any],
        origins: Mapping[str, str],
        profile: str,
        written: Mapping[str, str],
        file: Path | None = None,
        file_by: str = "",
    ) -> Settings:
        """Settings from validated values by path; other keys keep their defaults.

        `written`: relative paths as written. `file`: the operator's file; `file_by`: what named it, if not `--conf`.
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
        """The profile of the settings; empty for plain defaults."""
        return self._profile

    def value(self, path: str) -> Any:
        """The value of a key by its path, such as `loads.pane_s`."""
        section, name = path.split(".", 1)
        return getattr(getattr(self, section), name)

    def origin(self, path: str) -> str:
        """The origin of a value: default, profile, file, environment variable or override."""
        return self._origins.get(path, "default")

    @property
    def file(self) -> Path | None:
        """The operator's file."""
        return self._file

    @property
    def description(self) -> str:
        """What the settings were loaded from: the file or the defaults, the profile, other single values."""
        origins = set(self._origins.values())
        by = f" ({self._file_by})" if self._file_by else ""
        named = [
            f"file {self._file}{by}" if self._file else "defaults",
            f"profile {self._profile}" if self._profile else "",
        ]
        named += sorted(origin for origin in origins if origin.startswith("environment"))
        sets = [f"{path}={_word(self.value(path))}" for path, origin in self._origins.items() if origin == OVERRIDE]
        named.append(f"--set {', '.join(sets)}" if sets else "")
        return "; ".join(filter(None, named))

    def written_path(self, path: str) -> str | None:
        """The path of a key as written in a file or in the defaults, if it is relative."""
        return self._written.get(path)

    def dump(self) -> dict[str, dict[str, Any]]:
        """Every key with its effective value and origin, in order of declaration; secrets are hidden."""
        return {
            path: {"value": _without_secrets(self.value(path)), "origin": self.origin(path)} for path in DEFINITIONS
        }

    @property
    def version(self) -> str:
        """12 hex digits of a hash of the effective values, without origins and secrets."""
        text = json.dumps({path: _without_secrets(self.value(path)) for path in DEFINITIONS}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


DEFINITIONS: dict[str, Definition] = definitions_of(Settings)


def is_secret(name: str) -> bool:
    """Whether a setting of this name must not be shown."""
    return _SECRET.search(name) is not None


def reveals_secret(text: str) -> bool:
    """Whether a text may contain the name and value of a secret, such as `password: x` read as one word."""
    return _REVEALED.search(text) is not None


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: HIDDEN if _must_hide(name, inner) else _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, str):
        return without_login(value)
    return list(value) if isinstance(value, tuple) else value


def _word(value: Any) -> str:
    return without_login(value) if isinstance(value, str) else json.dumps(_without_secrets(value))


def _must_hide(name: str, value: object) -> bool:
    return isinstance(value, SecretStr) or is_secret(name)
