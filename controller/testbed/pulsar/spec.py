"""What a cluster is: the choices of its first start, stored as `cluster.json` in its folder, and what follows.

A folder holds one cluster. The file is written before anything starts, so a start that was interrupted can be
continued or cleaned up from any process that knows the folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from controller.domain.errors import BallastError, ConfigError

SPEC_FILE = "cluster.json"
CLUSTER_NAME = "local"
DEFAULT_BASE_PORT = 18_000
MOST_BROKERS = 19
# Brokers on one machine compete for its cores, so their message throughput is the load: even traffic of the demo uses a
# third of a network of this speed.
NIC_GBPS = 0.005
LOAD_MANAGERS = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
ZOOKEEPER, BOOKIE = "zookeeper", "bookie"
LOOPBACK = "127.0.0.1"


class PulsarFailed(BallastError):
    """Raised when the local Pulsar cluster cannot do what it was asked to; the message ends with the next step."""


class Ports(NamedTuple):
    """The ports of one server on its host; only brokers have a web port."""

    client: int
    web: int | None = None


class ClusterSpec(BaseModel):
    """The choices of a cluster. `brokers` are the numbers of its brokers: `broker1` has the number 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pulsar: str = Field(description="version of Pulsar")
    manager: Literal["modular", "extensible"] = "modular"
    brokers: tuple[Annotated[int, Field(ge=1, le=MOST_BROKERS)], ...] = (1, 2, 3)
    base_port: int = Field(DEFAULT_BASE_PORT, ge=1_024, le=65_400)
    settings: dict[str, str] = Field(default_factory=dict, description="more settings for broker.conf")
    auth: Literal["none", "token", "tls"] = "none"
    tls: bool = False
    broker_cores: float | None = Field(None, gt=0, description="CPU quota of each broker, in cores")
    own_hosts: bool = Field(False, description="each broker on 127.0.0.N, as isolation policies match hosts (Linux)")

    @field_validator("brokers")
    @classmethod
    def _distinct(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if not numbers or len(set(numbers)) != len(numbers):
            raise ValueError("brokers are numbered, each number once")
        return tuple(sorted(numbers))

    @model_validator(mode="after")
    def _certificates_need_tls(self) -> ClusterSpec:
        if self.auth == "tls" and not self.tls:
            raise ValueError("authentication by certificates needs TLS: add --tls")
        if self.own_hosts and self.tls:
            raise ValueError("certificates are for 127.0.0.1: choose TLS or hosts of their own")
        return self

    @property
    def load_manager(self) -> str:
        """The class name of the load manager."""
        return LOAD_MANAGERS[self.manager]

    @property
    def broker_names(self) -> list[str]:
        return [f"broker{number}" for number in self.brokers]

    @property
    def server_names(self) -> list[str]:
        """All servers in the order in which they start."""
        return [ZOOKEEPER, BOOKIE, *self.broker_names]

    def ports(self, name: str) -> Ports:
        """The ports of a server. Raises ConfigError for a name that the cluster does not have."""
        if name == ZOOKEEPER:
            return Ports(client=self.base_port)
        if name == BOOKIE:
            return Ports(client=self.base_port + 1)
        number = self.number(name)
        return Ports(client=self.base_port + 50 + number, web=self.base_port + 80 + number)

    def host(self, name: str) -> str:
        """The loopback address of a server."""
        return f"127.0.0.{self.number(name)}" if self.own_hosts and name in self.broker_names else LOOPBACK

    def number(self, name: str) -> int:
        """The number of a broker by its name. Raises ConfigError for a name that the cluster does not have."""
        if name not in self.broker_names:
            raise ConfigError(f"no server {name!r} in this cluster; there are {', '.join(self.server_names)}")
        return int(name.removeprefix("broker"))

    def web_url(self, name: str) -> str:
        """Where the broker's admin API answers."""
        return f"{'https' if self.tls else 'http'}://{self.host(name)}:{self.ports(name).web}"

    def client_url(self, name: str) -> str:
        """Where clients connect to the broker."""
        return f"{'pulsar+ssl' if self.tls else 'pulsar'}://{self.host(name)}:{self.ports(name).client}"

    def broker_id(self, name: str) -> str:
        """The id that Pulsar gives the broker: its host and web port."""
        return f"{self.host(name)}:{self.ports(name).web}"


def make_spec(**choices: Any) -> ClusterSpec:
    """The spec with these choices. Raises ConfigError naming the bad value."""
    try:
        return ClusterSpec(**choices)
    except ValidationError as error:
        first = error.errors()[0]
        text = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # of several fields together: not shown, settings may hold secrets
            raise ConfigError(text) from None
        raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {text} (given: {first['input']!r})") from None


def read_spec(folder: Path) -> ClusterSpec | None:
    """The stored choices of the folder's cluster, or None without one. Raises ConfigError for a damaged file."""
    file = folder / SPEC_FILE
    try:
        return ClusterSpec.model_validate_json(file.read_text())
    except FileNotFoundError:
        return None
    except (ValidationError, UnicodeDecodeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ConfigError(
            f"{file} is damaged ({reason}). If its servers still run, end them by the pids in {folder / 'pids'};"
            " then remove the folder"
        ) from None


def write_spec(folder: Path, spec: ClusterSpec) -> None:
    """Store the choices; readers see the old file or the new one. Settings may hold secrets: the owner alone reads."""
    temporary = folder / f"{SPEC_FILE}.new"
    temporary.touch(0o600)
    temporary.write_text(spec.model_dump_json(indent=2) + "\n")
    os.replace(temporary, folder / SPEC_FILE)
