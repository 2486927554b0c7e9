"""Wishes of operators that constrain rounds and assignments until they end (table `overrides`).

| kind | of | what holds while it does |
| --- | --- | --- |
| `pin` | a bundle, to a broker | rounds bring it there and leave it there; an orphan is assigned there |
| `avoid` | a bundle or a namespace, a broker | it is not sent there, and what is there is moved away |
| `freeze` | a bundle | no round moves or splits it, no proposed split is carried out |
| `exclude_namespace` | a namespace | the same for all its bundles |

An override of a bundle holds for what becomes of it by splits. Being served beats a wish: a drain empties a broker, and
an orphan without another broker is assigned to one it should avoid. Times are those of the load reports.
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
    """One wish. `id` is that of the command; `until_ms` None: until it is ended by command."""

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
        """Whether it holds for this bundle: by namespace, by name, or as a part of the bundle it was made for."""
        within = self._range
        if within is None:
            return bundle.namespace == self.namespace
        return bundle.namespace == within.namespace and within.lower <= bundle.lower and bundle.upper <= within.upper

    def holds(self, at_ms: int) -> bool:
        """Whether it has not run out."""
        return self.until_ms is None or at_ms < self.until_ms

    @property
    def of_namespace(self) -> str:
        """The namespace of all it concerns."""
        return self._range.namespace if self._range is not None else str(self.namespace)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Override:
        """What `to_json` gave; fields of newer versions are ignored."""
        return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})


def wishes_for(overrides: Iterable[Override], bundle: Bundle) -> tuple[str | None, frozenset[str]]:
    """The broker the bundle is pinned to, if any, and those it should avoid."""
    held = [o for o in overrides if o.concerns(bundle)]
    pinned = next((o.broker for o in held if o.kind == PIN), None)
    return pinned, frozenset(o.broker for o in held if o.kind == AVOID and o.broker is not None)
