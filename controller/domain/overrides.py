"""Operators' overrides, which constrain rounds and assignments until they end (table `overrides`).

| kind | on | effect |
| --- | --- | --- |
| `pin` | a bundle and a broker | rounds move the bundle there and keep it there; an orphan is assigned there |
| `avoid` | a bundle or a namespace, and a broker | nothing is sent there, and what is there is moved away |
| `freeze` | a bundle | rounds neither move nor split it, and proposed splits are refused |
| `exclude_namespace` | a namespace | the same for all its bundles |

An override of a bundle also applies to what its splits produce. Availability comes first: a drain still empties a
broker, and an orphan is assigned to a broker it should avoid when there is no other. Times are event times of load
reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from controller.domain.ids import Bundle

PIN, AVOID, FREEZE, EXCLUDE_NAMESPACE = "pin", "avoid", "freeze", "exclude_namespace"
KINDS = (PIN, AVOID, FREEZE, EXCLUDE_NAMESPACE)


@dataclass(frozen=True)
class Override:
    """One override. `id` is that of the command; `until_ms` None: until a command ends it."""

    id: str
    kind: str
    namespace: str | None = None
    bundle: str | None = None
    broker: str | None = None
    until_ms: int | None = None
    who: str = ""
    why: str = ""
    seq: int = 0

    @cached_property
    def _range(self) -> Bundle | None:
        return Bundle.parse(self.bundle) if self.bundle is not None else None

    def concerns(self, bundle: Bundle) -> bool:
        """Whether it applies to this bundle: by namespace, by name, or as a part of the bundle it was made for."""
        within = self._range
        if within is None:
            return bundle.namespace == self.namespace
        return bundle.namespace == within.namespace and within.lower <= bundle.lower and bundle.upper <= within.upper

    def holds(self, at_ms: int) -> bool:
        """Whether it has not expired."""
        return self.until_ms is None or at_ms < self.until_ms

    @property
    def of_namespace(self) -> str:
        """The namespace of all bundles that it concerns."""
        return self._range.namespace if self._range is not None else str(self.namespace)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Override:
        """Read what `to_json` returned; fields of newer versions are ignored."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})


def wishes_for(overrides: Iterable[Override], bundle: Bundle) -> tuple[str | None, frozenset[str]]:
    """The broker that the bundle is pinned to, if any, and those that it should avoid."""
    held = [o for o in overrides if o.concerns(bundle)]
    pinned = next((o.broker for o in held if o.kind == PIN), None)
    return pinned, frozenset(o.broker for o in held if o.kind == AVOID and o.broker is not None)
