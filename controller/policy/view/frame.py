"""The input of a round as integers: the cluster's brokers and bundles and their short averages at one moment.

A round quantises its input first and computes from the integers alone. So the part of a frame that mattered, stored as
JSON, gives the same plan again (invariant I4). Brokers are ordered by id and bundles by name. `Frame.of` makes a frame
from columns by name; `tabulate.py` makes one from the journal and the load averages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.overrides import Override
from controller.policy.view.estimates import Estimates

Ints = NDArray[np.int64]
Facts = Mapping[str, Any]  # column name -> one value a row, or one value for all rows
Name = TypeVar("Name", str, bytes)


class BundleFacts(NamedTuple):
    """A row of `Frame.bundle_facts`; `owner` is an index into the brokers or NOBODY."""

    owner: int
    status: int
    epoch: int
    moved_at_ms: int


BROKER_FACTS = ("incarnation", "registered", "alive", "drained", "leaving", "lagging", "reports", "last_event_ms")
BUNDLE_FACTS = BundleFacts._fields
ROW_FACTS = ("bundle", "reporter", "reports")
LATENCIES = ("rpc_queue_ms", "metadata_latency_ms")  # columns of Frame.latencies, there in microseconds

OWNED, MOVING, UNOWNED = 0, 1, 2  # BundleFacts.status
NOBODY = -1  # BundleFacts.owner
_MEASURED = (*(f"{r}_usage" for r in RESOURCES), *(f"{r}_limit" for r in RESOURCES), *BUNDLE_FIELDS)
_BROKER_COLUMNS = ["broker", *BROKER_FACTS, *_MEASURED]
_BUNDLE_COLUMNS = ["bundle", *BUNDLE_FACTS]
_ROW_COLUMNS = [*ROW_FACTS, *BUNDLE_FIELDS]


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """What the rules of placement ask of the journal: exact counts, unreported bundles included.

    Counted only for rules that are configured, and stored with the frame for the replay. Each tuple is [B], in the
    order of the frame's brokers; None: no rule asks. `held`: bundles. `versions`: as registered, "" unknown. `spread`:
    bundles of each namespace. A grant under way counts for its grantee.
    """

    held: tuple[int, ...] | None = None
    versions: tuple[str, ...] | None = None
    spread: Mapping[str, tuple[int, ...]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Only the facts that a rule asks for."""
        document: dict[str, Any] = {}
        if self.held is not None:
            document["held"] = list(self.held)
        if self.versions is not None:
            document["versions"] = list(self.versions)
        if self.spread is not None:
            document["spread"] = {namespace: list(counts) for namespace, counts in sorted(self.spread.items())}
        return document

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RuleFacts:
        """Read what `to_json` wrote."""
        spread = stored.get("spread")
        return cls(
            tuple(stored["held"]) if "held" in stored else None,
            tuple(stored["versions"]) if "versions" in stored else None,
            {namespace: tuple(counts) for namespace, counts in spread.items()} if spread is not None else None,
        )


@dataclass(frozen=True, eq=False)
class Frame:
    """B brokers, N bundles, and M rows "this broker reported that bundle"; all numbers quantised (domain/load.py)."""

    at_ms: int
    mode: str
    brokers: tuple[str, ...]
    broker_facts: Ints  # [B x BROKER_FACTS]
    usage: Ints  # [B x R] or UNKNOWN
    limit: Ints  # [B x R] or UNKNOWN
    totals: Ints  # [B x F] sums over the broker's bundles
    bundles: tuple[str, ...]
    bundle_facts: Ints  # [N x BUNDLE_FACTS]
    row_facts: Ints  # [M x ROW_FACTS] indices of bundle and reporter
    row_fields: Ints  # [M x F]
    namespace_bundles: Mapping[str, int]  # living bundles, splits in flight counted as done
    overrides: tuple[Override, ...] = ()  # in force at this moment, oldest first
    rule_facts: RuleFacts | None = None
    latencies: Ints | None = None  # [B x LATENCIES] in us, or UNKNOWN; None: unknown for all brokers
    forbidden: Mapping[str, str] = field(default_factory=dict)  # broker or bundle of an observed cluster -> reason
    estimates: Estimates | None = None  # None: before the usage model was asked, and in rounds of 0.1.0
    one_order_a_range: bool = False  # one at a time, whatever the namespace (Pulsar's modular manager)

    @classmethod
    def of(
        cls, at_ms: int, mode: str, brokers: tuple[str, ...], bundles: tuple[str, ...], *,
        broker: Facts, bundle: Facts, row: Facts, usage: Ints, limit: Ints, totals: Ints, row_fields: Ints,
        namespace_bundles: Mapping[str, int], overrides: tuple[Override, ...] = (), latencies: Ints | None = None,
        forbidden: Mapping[str, str] | None = None, one_order_a_range: bool = False,
    ) -> Frame:  # fmt: skip
        """A frame of columns by name. `broker`: of BROKER_FACTS, `bundle`: of BUNDLE_FACTS, `row`: of ROW_FACTS.

        A column that is left out is 0; raises ValueError for one that does not exist.
        """
        return cls(
            at_ms=at_ms,
            mode=mode,
            brokers=brokers,
            broker_facts=_matrix_of(BROKER_FACTS, broker, len(brokers)),
            usage=usage,
            limit=limit,
            totals=totals,
            bundles=bundles,
            bundle_facts=_matrix_of(BUNDLE_FACTS, bundle, len(bundles)),
            row_facts=_matrix_of(ROW_FACTS, row, len(row_fields)),
            row_fields=row_fields,
            namespace_bundles=namespace_bundles,
            overrides=overrides,
            latencies=latencies,
            forbidden=forbidden or {},
            one_order_a_range=one_order_a_range,
        )

    def broker(self, column: str) -> Ints:
        """[B] a column of BROKER_FACTS."""
        return self.broker_facts[:, BROKER_FACTS.index(column)]

    def bundle(self, column: str) -> Ints:
        """[N] a column of BUNDLE_FACTS."""
        return self.bundle_facts[:, BUNDLE_FACTS.index(column)]

    def row(self, column: str) -> Ints:
        """[M] a column of ROW_FACTS."""
        return self.row_facts[:, ROW_FACTS.index(column)]

    @cached_property
    def one_row_each(self) -> bool:
        """Whether the rows are the bundles, in order: one broker reported each. So means over rows need no sums."""
        size = len(self.bundles)
        return len(self.row_fields) == size and bool((self.row("bundle") == np.arange(size)).all())

    @property
    def in_service(self) -> NDArray[np.bool_]:
        """[B] registered, alive and here to stay: available for an isolation policy."""
        here = (self.broker("registered") == 1) & (self.broker("alive") == 1)
        staying = (self.broker("drained") == 0) & (self.broker("leaving") == 0) & (self.broker("lagging") == 0)
        return np.asarray(here & staying)

    def select(self, wanted: NDArray[np.bool_]) -> Frame:
        """The same frame with only the wanted bundles ([N] mask) and their rows; all brokers stay."""
        kept, kept_rows = np.flatnonzero(wanted), wanted[self.row("bundle")]
        names = tuple(self.bundles[i] for i in kept)
        spaces = {namespace_of_bundle(name) for name in names}
        kept_names = set(names) if self.forbidden else set()
        return replace(
            self,
            bundles=names,
            bundle_facts=self.bundle_facts[kept],
            row_facts=self._renumber(np.cumsum(wanted) - 1)[kept_rows],
            row_fields=self.row_fields[kept_rows],
            namespace_bundles={ns: n for ns, n in self.namespace_bundles.items() if ns in spaces},
            forbidden={name: why for name, why in self.forbidden.items() if "/" not in name or name in kept_names},
            estimates=self.estimates.select(kept) if self.estimates is not None else None,
        )

    def insert(self, added: Mapping[str, BundleFacts]) -> Frame:
        """The same frame with bundles that it lacks. They have no rows, so no known cost."""
        names = sorted(added)
        places = np.array([bisect_left(self.bundles, name) for name in names], np.int64)
        facts = _matrix([added[name] for name in names], len(BUNDLE_FACTS))
        bundles = np.arange(len(self.bundles))
        return replace(
            self,
            bundles=tuple(sorted((*self.bundles, *names))),
            bundle_facts=np.insert(self.bundle_facts, places, facts, axis=0),
            row_facts=self._renumber(bundles + np.searchsorted(places, bundles, side="right")),
            estimates=self.estimates.insert(places) if self.estimates is not None else None,
        )

    def _renumber(self, bundles: Ints) -> Ints:
        """The rows' facts where `bundles` [N] are the new indices of the bundles."""
        facts = self.row_facts.copy()
        facts[:, ROW_FACTS.index("bundle")] = bundles[self.row("bundle")]
        return facts

    def to_json(self) -> dict[str, Any]:
        """Plain lists and integers, one row a broker, bundle and report; `from_json` reads it back."""
        brokers = np.hstack([self.broker_facts, self.usage, self.limit, self.totals]).tolist()
        asked_for: dict[str, Any] = {} if self.rule_facts is None else {"rule_facts": self.rule_facts.to_json()}
        if self.latencies is not None:
            asked_for["latencies_us"] = self.latencies.tolist()
        if self.forbidden:
            asked_for["forbidden"] = dict(sorted(self.forbidden.items()))
        if self.one_order_a_range:
            asked_for["one_order_a_range"] = True
        if self.estimates is not None:
            asked_for["estimates"] = self.estimates.to_json()
        return {
            "at_ms": self.at_ms,
            "mode": self.mode,
            "broker_columns": list(_BROKER_COLUMNS),
            "brokers": [[name, *row] for name, row in zip(self.brokers, brokers, strict=True)],
            "bundle_columns": list(_BUNDLE_COLUMNS),
            "bundles": [[name, *row] for name, row in zip(self.bundles, self.bundle_facts.tolist(), strict=True)],
            "row_columns": list(_ROW_COLUMNS),
            "rows": np.hstack([self.row_facts, self.row_fields]).tolist(),
            "namespace_bundles": dict(sorted(self.namespace_bundles.items())),
            "overrides": [wish.to_json() for wish in self.overrides],
            **asked_for,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Frame:
        """Read what `to_json` wrote; raises BadRecord when its columns are not those of this version."""
        expected = (_BROKER_COLUMNS, _BUNDLE_COLUMNS, _ROW_COLUMNS)
        found = tuple(list(stored[key]) for key in ("broker_columns", "bundle_columns", "row_columns"))
        if found != expected:
            raise BadRecord("frame_columns", f"{found} were stored, this version reads {expected}: replay with its own")
        facts, resources, fields = len(BROKER_FACTS), len(RESOURCES), len(BUNDLE_FIELDS)
        brokers = _matrix([row[1:] for row in stored["brokers"]], facts + 2 * resources + fields)
        rows = _matrix(stored["rows"], len(ROW_FACTS) + fields)
        return cls(
            at_ms=int(stored["at_ms"]),
            mode=str(stored["mode"]),
            brokers=tuple(row[0] for row in stored["brokers"]),
            broker_facts=brokers[:, :facts],
            usage=brokers[:, facts : facts + resources],
            limit=brokers[:, facts + resources : facts + 2 * resources],
            totals=brokers[:, facts + 2 * resources :],
            bundles=tuple(row[0] for row in stored["bundles"]),
            bundle_facts=_matrix([row[1:] for row in stored["bundles"]], len(BUNDLE_FACTS)),
            row_facts=rows[:, : len(ROW_FACTS)],
            row_fields=rows[:, len(ROW_FACTS) :],
            namespace_bundles=dict(stored["namespace_bundles"]),
            overrides=tuple(map(Override.from_json, stored.get("overrides", ()))),
            rule_facts=RuleFacts.from_json(stored["rule_facts"]) if "rule_facts" in stored else None,
            latencies=_matrix(stored["latencies_us"], len(LATENCIES)) if "latencies_us" in stored else None,
            forbidden=dict(stored.get("forbidden", {})),
            estimates=Estimates.from_json(stored["estimates"]) if "estimates" in stored else None,
            one_order_a_range=bool(stored.get("one_order_a_range", False)),
        )


def place_of(names: Sequence[Name], name: Name) -> int | None:
    """The index of a name among sorted names; None where it is not among them."""
    at = bisect_left(names, name)
    return at if at < len(names) and names[at] == name else None


def count_held(owner: Ints, brokers: int) -> Ints:
    """[brokers] how many of the bundles with these owners [N] each of them has."""
    return np.bincount(owner - NOBODY, minlength=brokers + 1)[1:].astype(np.int64)


def namespace_of_bundle(name: str) -> str:
    """`tenant/namespace` of a bundle's name, without parsing the range."""
    return name.rpartition("/")[0]


@lru_cache(maxsize=4)
def namespaces_of(bundles: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """The sorted namespaces of these sorted bundles, and [N] the index of each bundle's. Keeps the newest clusters."""
    runs = _find_namespace_runs(bundles)
    spaces = tuple(sorted({space for space, _ in runs}))
    index = {space: at for at, space in enumerate(spaces)}
    codes = np.repeat(np.array([index[space] for space, _ in runs], np.int64), [length for _, length in runs])
    codes.flags.writeable = False
    return spaces, codes


def _find_namespace_runs(bundles: Sequence[str]) -> list[tuple[str, int]]:
    """Consecutive bundles of one namespace, as the namespace and their number. In sorted names the ranges of a
    namespace, `tenant/namespace/0x…`, follow each other: one search finds their end. A name without a range or without
    a namespace is a run of its own."""
    runs: list[tuple[str, int]] = []
    at = 0
    while at < len(bundles):
        namespace, _, range_text = bundles[at].rpartition("/")
        if not namespace or not range_text.startswith("0x"):
            runs.append((namespace, 1))
            at += 1
            continue
        run = bundles[at : bisect_left(bundles, f"{namespace}/0y", at)]  # up to what is beyond its ranges
        if "".join(run).count("/") == len(run) * (namespace.count("/") + 1):
            runs.append((namespace, len(run)))
        else:  # something follows a range
            runs += ((name.rpartition("/")[0], 1) for name in run)
        at += len(run)
    return runs


def _matrix(rows: Sequence[Sequence[int]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _matrix_of(names: Sequence[str], columns: Facts, rows: int) -> Ints:
    """[rows x names] of columns by name. Columns of zeros cost no memory."""
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: the columns are {', '.join(names)}")
    result = np.zeros((len(names), rows), np.int64).T  # columns are read one at a time
    for name, values in columns.items():
        if np.any(values):
            result[:, names.index(name)] = values
    return result
