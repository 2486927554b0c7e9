"""The settings that keep Pulsar's own balancer still: what brokers have, and the overrides of it.

An override is a dynamic setting: it goes before broker.conf on every broker, takes effect within seconds and survives
restarts. Other overrides may be secrets, so only those of the settings asked for are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.changes import PulsarChanges, Sent
from controller.brokers.pulsar.facts import RuntimeConfiguration, read_runtime_configuration
from controller.brokers.pulsar.outcomes import CallFailed
from controller.domain.errors import BallastError, printable

CONFIGURATION_PATH = "/admin/v2/brokers/configuration"
ON, OFF = "true", "false"
WRITE_TIMEOUT_S = 30.0
MOST_VALUE_CHARS = 200
_ASK_ANOTHER = frozenset({0, 500, 502, 503, 504, 307})  # no answer, or none that is about the request


class NotWritten(BallastError):
    """Raised when no broker takes a setting."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting as it is. `by_broker`: the value in force, None if the broker does not tell; `override`: None without
    one."""

    setting: str
    by_broker: Mapping[str, str | None]
    override: str | None

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Value in force -> the brokers that have it, sorted."""
        found: dict[str, tuple[str, ...]] = {}
        for broker, value in sorted(self.by_broker.items()):
            told = "not told" if value is None else value
            found[told] = (*found.get(told, ()), broker)
        return found

    def follows(self, override: str | None) -> bool:
        """Whether the brokers are seen to follow this override: all have its value. None: it was ours that is gone, and
        some broker has another value than ours again."""
        if override is not None:
            return set(self.values) == {override}
        return set(self.values) != {OFF}


class Switchboard:
    """Reads and writes the switches of one cluster. `addresses`: broker -> web address."""

    def __init__(self, admin: PulsarAdmin, addresses: Mapping[str, str]) -> None:
        self._admin, self._addresses, self._changes = admin, addresses, PulsarChanges(admin)

    async def read(self, settings: Iterable[str]) -> list[Switch]:
        """The settings as they are now. Raises CallFailed if the overrides cannot be read."""
        overrides = await self._read_overrides()
        found = await asyncio.gather(*map(self._configuration_of, self._addresses.values()))
        told = dict(zip(self._addresses, found, strict=True))
        switches = []
        for setting in settings:
            override = overrides.get(setting)
            by_broker = {broker: configuration.values.get(setting) for broker, configuration in told.items()}
            text = None if override is None else printable(str(override)[:MOST_VALUE_CHARS])
            switches.append(Switch(setting, by_broker, text))
        return switches

    async def write(self, setting: str, override: str | None) -> None:
        """Set the override, or remove it (None); doing so again changes nothing. Raises NotWritten."""
        path = f"{CONFIGURATION_PATH}/{quote(setting, safe='')}"
        method = "DELETE" if override is None else "POST"
        path += "" if override is None else f"/{quote(override, safe='')}"
        sent = Sent(0, (), "the cluster lists no broker with an address")
        for address in self._addresses.values():
            sent = await self._changes.send(method, path, address, timeout_s=WRITE_TIMEOUT_S)
            if sent.status not in _ASK_ANOTHER:
                break
        if not 200 <= sent.status < 300:
            said = f"HTTP {sent.status}: {sent.detail}".rstrip(": ") if sent.status else sent.detail
            hint = "; it takes the credentials of a super-user" if sent.status in (401, 403) else ""
            raise NotWritten(f"Pulsar did not take {method} {path}: {said}{hint}")

    async def _read_overrides(self) -> Mapping[str, object]:
        answer = await self._admin.get(f"{CONFIGURATION_PATH}/values")
        return {} if answer.is_absent else answer.mapping()

    async def _configuration_of(self, address: str) -> RuntimeConfiguration:
        try:
            return await read_runtime_configuration(self._admin, address)
        except CallFailed:
            return RuntimeConfiguration()
