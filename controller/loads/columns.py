"""Parses load reports in bulk into flat arrays, and finds those that are certainly valid.

`read` parses plain records only, one JSON object each. Records that it cannot parse, and reports that `Sheet.good`
cannot prove valid, go to `controller.loads.judge`. So a report accepted here breaks no rule, and no rule is named here.

Measured: 2.3 us of CPU per bundle row of 280 bytes for parsing, 0.3 us for checking. Arrow parses with RapidJSON:
iteratively (nesting cannot overflow the stack), numbers straight into column buffers, no Python object per bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from controller.domain.strict_json import WHOLE_END
from controller.loads.rules import ASCII_BUNDLE_PATTERN, BROKER_PATTERN, NONCE_PATTERN, VERSION, ReportLimits

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_BRACKETS = 200  # of a record besides those of its bundles; a plain one has ten
LISTS_OF_BUNDLES = (b'"partitioned_topics":[', b'"partitioned_topics": [')  # keys of objects, whose own brackets count
TIMES = ("rpc_queue_ms", "metadata_latency_ms")
_COUNTED = (*BUNDLE_FIELDS, "bundles")


def _numbers(names: Sequence[str], *more: pa.Field) -> pa.StructType:
    return pa.struct([*[pa.field(name, pa.float64()) for name in names], *more])


SCHEMA = pa.schema(
    [
        *[pa.field(name, pa.int64()) for name in ("v", "incarnation", "session", "sequence")],
        *[pa.field(name, pa.string()) for name in ("broker", "nonce")],
        *[pa.field(name, pa.float64()) for name in TIMES],
        pa.field("resources", pa.struct([pa.field(name, _numbers(("usage", "limit"))) for name in RESOURCES])),
        pa.field("totals", _numbers(_COUNTED)),
        pa.field("tail", _numbers(_COUNTED)),
        pa.field("bundles", pa.list_(_numbers(BUNDLE_FIELDS, pa.field("bundle", pa.string())))),
    ]
)


def read(values: Sequence[bytes]) -> tuple[pa.Table, list[int]]:
    """A row for each record that is a plain JSON report, in order, and the positions of these records."""
    plain = [number for number, value in enumerate(values) if _one_line(value)]
    tables, positions = [SCHEMA.empty_table()], []
    parts = [plain] if plain else []
    while parts:  # a part that does not parse is halved until the bad records are alone
        part = parts.pop()
        table = _parse([values[number] for number in part])
        if table is not None:
            tables.append(table)
            positions += part
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
    table = pa.concat_tables(tables).combine_chunks()
    shallow = _shallow(table, [values[number] for number in positions])
    if not shallow.all():
        table, positions = table.filter(pa.array(shallow)), np.array(positions)[shallow].tolist()
    return table, positions


def _shallow(table: pa.Table, values: Sequence[bytes]) -> Mask:
    """[n] which records cannot be nested deeply in what the schema ignores: the judge refuses more than some hundred
    levels. Bundles account for most of a record's brackets, one of each for its list."""
    listed = pc.fill_null(pc.list_value_length(table["bundles"]), 0).to_numpy()
    lists = np.array([sum(map(value.count, LISTS_OF_BUNDLES)) for value in values], np.int64)
    brackets = np.array([value.count(b"{") + value.count(b"[") for value in values], np.int64) - lists
    return np.asarray(brackets - listed <= MOST_BRACKETS)


def from_documents(documents: Sequence[dict[str, Any]]) -> pa.Table:
    """Reports that `controller.loads.judge` accepted, in the form of `read`."""
    return pa.Table.from_pylist(list(documents), schema=SCHEMA)


def _one_line(value: bytes) -> bool:
    # Each line begins an object, so n lines that parse as n objects are one object each: `{…}{…}` cannot hide.
    return value[:1] == b"{" and value[-1:] == b"}" and b"\n" not in value and b"\r" not in value


def _parse(lines: list[bytes]) -> pa.Table | None:
    text = b"\n".join(lines) + b"\n"
    try:
        if not text.isascii():
            text.decode("utf-8")  # RapidJSON does not check strings outside the schema
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    return table if table.num_rows == len(lines) else None


@dataclass(frozen=True, eq=False)
class Sheet:
    """Reports as arrays, one element per report except for `stats` (field x bundle row) and `names`; `counts` is the
    number of bundle rows of each report, in order. Nulls are NaN, or -1 in integers."""

    brokers: pa.Array
    nonces: pa.Array
    ids: dict[str, npt.NDArray[np.int64]]
    times: Floats  # 2 x reports
    usages: Floats  # resources x reports
    limits: Floats
    totals: Floats  # fields and bundles x reports
    tails: Floats
    has_tail: Mask
    has_bundles: Mask
    counts: npt.NDArray[np.int64]
    stats: Floats
    names: pa.Array

    @classmethod
    def of(cls, table: pa.Table) -> Sheet:
        """Build from rows in the form of `read`."""
        columns = {name: _whole(table[name]) for name in SCHEMA.names}
        resources = [pc.struct_field(columns["resources"], name) for name in RESOURCES]
        bundles, tail = columns["bundles"], columns["tail"]
        rows = bundles.flatten()
        return cls(
            brokers=columns["broker"],
            nonces=columns["nonce"],
            ids={name: _longs(columns[name]) for name in ("v", "incarnation", "session", "sequence")},
            times=_matrix([columns[name] for name in TIMES]),
            usages=_matrix([pc.struct_field(r, "usage") for r in resources]),
            limits=_matrix([pc.struct_field(r, "limit") for r in resources]),
            totals=_matrix([pc.struct_field(columns["totals"], name) for name in _COUNTED]),
            tails=_matrix([pc.struct_field(tail, name) for name in _COUNTED]),
            has_tail=_flags(pc.is_valid(tail)),
            has_bundles=_flags(pc.is_valid(bundles)),
            counts=_longs(pc.fill_null(pc.list_value_length(bundles), 0)),
            stats=_matrix([pc.struct_field(rows, name) for name in BUNDLE_FIELDS]),
            names=pc.struct_field(rows, "bundle"),
        )

    @property
    def owners(self) -> npt.NDArray[np.int64]:
        """The report that each bundle row belongs to."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def good(self, keys: pa.Array, event_ms: npt.NDArray[np.int64], limits: ReportLimits) -> Mask:
        """Which reports certainly break none of the rules about single records."""
        ids = self.ids
        fine = (ids["v"] == VERSION) & (ids["incarnation"] >= 1) & (ids["session"] >= 1) & (ids["sequence"] >= 0)
        for name in ("incarnation", "session", "sequence"):
            fine &= ids[name] < WHOLE_END
        fine &= _matches(self.brokers, BROKER_PATTERN) & _matches(self.nonces, NONCE_PATTERN)
        fine &= _flags(pc.fill_null(pc.equal(keys, self.brokers.cast(pa.binary())), False)) & (event_ms >= 0)
        fine &= self.has_bundles & (self.counts <= limits.max_report_bundles)
        for numbers in (self.times, self.totals):
            fine &= np.isfinite(numbers).all(axis=0) & (numbers >= 0).all(axis=0)
        fine &= ~self.has_tail | ((self.tails >= 0) & np.isfinite(self.tails)).all(axis=0)
        good: Mask = fine & self._possible() & self._names_good() & self._numbers_good(limits)
        return good

    def _possible(self) -> Mask:
        known = self.limits > 0
        with np.errstate(over="ignore"):  # then nothing is above it
            over = known & ((self.usages < 0) | (self.usages > self.limits * IMPOSSIBLE_FACTOR))
        finite = np.isfinite(self.usages) & np.isfinite(self.limits)
        return np.asarray((finite & ~over).all(axis=0))

    def _numbers_good(self, limits: ReportLimits) -> Mask:
        """Which reports have no negative number of a bundle, and agreeing sums; NaN and infinity never agree."""
        tails = np.where(self.has_tail, self.tails, 0.0)
        sums, least = np.zeros((len(BUNDLE_FIELDS), len(self.counts))), np.zeros(len(self.counts))
        listed = np.flatnonzero(self.counts)
        if len(listed):
            starts = (np.cumsum(self.counts) - self.counts)[listed]
            sums[:, listed] = np.add.reduceat(self.stats, starts, axis=1)
            least[listed] = np.minimum.reduceat(self.stats.min(axis=0), starts)
        totals = self.totals[:-1]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(sums + tails[:-1] - totals)
            allowed = np.maximum(totals * limits.conservation_tolerance, limits.conservation_slack)
            close = (apart <= allowed).all(axis=0)
            result: Mask = close & (self.counts + tails[-1] == self.totals[-1]) & (least >= 0)
        return result

    def _names_good(self) -> Mask:
        """Which reports list every bundle once and with a valid name."""
        names, owners = self.names, self.owners
        bad = ~_matches(names, ASCII_BUNDLE_PATTERN)  # Pulsar has no others; the judge decides on them
        lower, upper = (pc.utf8_slice_codeunits(names, start, stop) for start, stop in ((-19, -11), (-8, None)))
        bad |= ~_flags(pc.fill_null(pc.less(lower, upper), False))
        coded = names.dictionary_encode()
        of_report = owners * max(len(coded.dictionary), 1) + _longs(coded.indices)
        order = np.argsort(of_report, kind="stable")
        again = of_report[order][1:] == of_report[order][:-1]
        bad[order[1:][again]] = True
        fine = np.ones(len(self.counts), bool)
        fine[owners[bad]] = False
        return fine


def _whole(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.combine_chunks()
    return chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks)


def _longs(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(array.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def _flags(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _matrix(arrays: Sequence[pa.Array]) -> Floats:
    return np.stack([np.asarray(a.to_numpy(zero_copy_only=False), dtype=np.float64) for a in arrays])


def _matches(texts: pa.Array, pattern: str) -> Mask:
    return _flags(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
