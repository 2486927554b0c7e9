"""Rolling averages of loads: vectorised over all keys, kept between batches, recovered from the tables at a start.

A batch gives one row for each (key, as_of) it touches, where as_of is the pane's end, or the key's newest pane end if
that is later. Panes are folded in order of time, so a batch that catches up over many panes gives the same rows as many
small batches.
- short: a sliding window over the panes that end in (as_of - horizon, as_of], as sums divided by sums.
  - long: an exponentially decayed average over panes: prev * d + (1 - d) * mean of the pane, where d = 2^(-(as_of -
    prev end) / half-life) and prev is the value at the key's previous pane. Further partials of the newest pane replace
    its share; a partial of an older pane changes the short average only (one pane is 0.2 % of a long average of an
    hour). Partials further behind than `lag_ms` are in the panes table but give no row.

A key without a row for `keep_ms` is dropped, as it would be at a restart: every bundle that moves leaves such a key
behind, and so does every process of a broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controller.loads.layout import Layout, Ratio

NEVER = -1
FEWEST_DROPPED = 1_000  # keys; below that, and below half of all keys, memory is not compacted
_SEPARATOR = "\x1f"


@dataclass
class RollingAverages:
    """The rolling averages of one layout. Not thread-safe: fold one batch at a time."""

    layout: Layout
    horizon_ms: int
    half_life_ms: int
    keep_ms: int | None = None  # None: keys are never dropped
    _keys: pa.Array = field(init=False)
    _names: pa.Table = field(init=False)
    _panes: dict[int, npt.NDArray[Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._keys = pa.array([], pa.string())
        columns = self.layout.keys + self.layout.carried
        self._names = pa.table({name: pa.array([], _type(name)) for name in columns})
        longs = len(self.layout.longs)
        self._as_of, self._prev_end = np.empty(0, np.int64), np.empty(0, np.int64)
        self._now, self._prev = np.empty((0, longs)), np.empty((0, longs))

    @property
    def lag_ms(self) -> int:
        """How far behind the newest pane end a partial may be and still give a row."""
        return lag_ms(self.horizon_ms)

    def fold(self, partials: pa.Table, newest_before_ms: int) -> pa.Table:
        """Fold one batch's partial panes; returns the rows of the load table, without writer and batch.

        `newest_before_ms` is the newest pane end of all earlier batches, 0 for none.
        """
        if self.keep_ms is not None:
            self._drop_keys(newest_before_ms - self.keep_ms)
        in_time = pc.greater(partials["pane_end_ms"], newest_before_ms - self.lag_ms)
        if not pc.all(in_time).as_py():  # a copy of everything otherwise
            partials = partials.filter(in_time)
        ids = self._ids(partials)
        ends = partials["pane_end_ms"].to_numpy()
        sums = _matrix(partials, self.layout.sums)
        as_of = np.maximum(ends, self._as_of[ids])
        rows = []
        for moment in np.unique(as_of):
            chosen = _those(as_of == moment)
            self._add(ids[chosen], ends[chosen], sums[:, chosen])
            rows.append(self._rows(self._distinct(ids[chosen]), int(moment)))
        self._drop_panes()
        return pa.concat_tables(rows) if rows else self._rows(np.empty(0, np.int64), 0)

    def recover(self, panes: pa.Table, load: pa.Table) -> None:
        """Rebuild the averages from the tables: partial panes of the last `lag_ms`, and rows of the load table.

        The newest row of each (key, as_of) in the load table counts; the newest two as_of of a key are needed.
        """
        self.__post_init__()
        self._panes = {}
        if load.num_rows == 0:
            return
        ids = self._ids(load)
        moments, batches = load["as_of_ms"].to_numpy(), load["batch_id"].to_numpy()
        longs = np.column_stack([_doubles(load[column]) for _, column in self.layout.longs])
        order = np.lexsort((batches, moments, ids))
        ids, moments, longs = ids[order], moments[order], longs[order]
        last = np.append((ids[1:] != ids[:-1]) | (moments[1:] != moments[:-1]), True)
        ids, moments, longs = ids[last], moments[last], longs[last]
        newest = np.append(ids[1:] != ids[:-1], True)
        before = np.append((ids[1:] == ids[:-1]) & newest[1:], False)
        self._as_of[ids[newest]], self._now[ids[newest]] = moments[newest], longs[newest]
        self._prev_end[ids[before]], self._prev[ids[before]] = moments[before], longs[before]
        known = pc.is_in(_join_keys(panes, self.layout.keys), value_set=self._keys)
        panes = panes.filter(known)
        if panes.num_rows:
            self._add(self._ids(panes), panes["pane_end_ms"].to_numpy(), _matrix(panes, self.layout.sums))

    def _ids(self, table: pa.Table) -> npt.NDArray[Any]:
        """The index of each row's key; unknown keys are added."""
        keys = _join_keys(table, self.layout.keys)
        found = pc.index_in(keys, value_set=self._keys)
        fresh = pc.is_null(found)
        if pc.any(fresh).as_py():
            names = table.select([*self.layout.keys, *self.layout.carried]).filter(fresh)
            added = keys.filter(fresh)
            unique = pc.unique(added)
            first = pc.index_in(unique, value_set=added)
            self._grow(unique, names.take(first))
            found = pc.index_in(keys, value_set=self._keys)
        return np.asarray(found, dtype=np.int64)

    def _grow(self, keys: pa.Array, names: pa.Table) -> None:
        count, longs = len(keys), len(self.layout.longs)
        self._keys = pa.concat_arrays([self._keys, keys])
        self._names = pa.concat_tables([self._names, names.cast(self._names.schema)]).combine_chunks()
        unset = np.full(count, NEVER, np.int64)
        self._as_of, self._prev_end = np.append(self._as_of, unset), np.append(self._prev_end, unset)
        nothing = np.full((count, longs), np.nan)
        self._now, self._prev = np.vstack([self._now, nothing]), np.vstack([self._prev, nothing])

    def _pane(self, end_ms: int) -> npt.NDArray[Any]:
        """The sums of one pane: a row for each of them, a column for each known key."""
        pane = self._panes.get(end_ms)
        known, height = len(self._keys), len(self.layout.sums)
        if pane is None:
            pane = self._panes[end_ms] = np.zeros((height, known))
        elif pane.shape[1] < known:
            pane = self._panes[end_ms] = np.hstack([pane, np.zeros((height, known - pane.shape[1]))])
        return pane

    def _add(self, ids: npt.NDArray[Any], ends: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
        for end in np.unique(ends):
            chosen = _those(ends == end)
            pane, places, added = self._pane(int(end)), ids[chosen], sums[:, chosen]
            if len(self._distinct(places)) == len(places):  # a partial of each key, as usual
                pane[:, places] += added
            else:
                for row, values in zip(pane, added, strict=True):
                    np.add.at(row, places, values)

    def _distinct(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The ids, each once and ascending; a tenth of what sorting or hashing them takes."""
        return np.flatnonzero(np.bincount(ids, minlength=len(self._keys)))

    def _rows(self, ids: npt.NDArray[Any], as_of_ms: int) -> pa.Table:
        window = np.zeros((len(self.layout.sums), len(ids)))
        places = slice(None) if len(ids) == len(self._keys) else ids  # they are distinct and ascending
        for end in self._panes:
            if as_of_ms - self.horizon_ms < end <= as_of_ms:
                window += self._pane(end)[:, places]
        longs = self._advance(ids, as_of_ms) if len(ids) else np.empty((0, len(self.layout.longs)))
        columns: dict[str, pa.Array] = {"as_of_ms": pa.array(np.full(len(ids), as_of_ms, np.int64))}
        names = self._names.take(pa.array(ids))
        columns |= {name: names[name].combine_chunks() for name in names.column_names}
        if self.layout.has_short_from:
            columns["short_from_ms"] = pa.array(np.full(len(ids), as_of_ms - self.horizon_ms, np.int64))
        columns["reports"] = pa.array(window[self.layout.sums.index("reports")].astype(np.int64))
        for ratio in self.layout.ratios:
            columns[ratio.name] = pa.array(self._ratio(window, ratio), from_pandas=True)
        for number, (_, name) in enumerate(self.layout.longs):
            columns[name] = pa.array(longs[:, number], from_pandas=True)
        return pa.table(columns)

    def _advance(self, ids: npt.NDArray[Any], as_of_ms: int) -> npt.NDArray[Any]:
        later = ids[self._as_of[ids] < as_of_ms]
        self._prev[later], self._prev_end[later] = self._now[later], self._as_of[later]
        self._as_of[later] = as_of_ms
        pane = self._pane(as_of_ms)[:, ids]
        mean = np.column_stack([self._ratio(pane, ratio) for ratio, _ in self.layout.longs])
        prev = self._prev[ids]
        decay = np.exp2((self._prev_end[ids] - as_of_ms) / self.half_life_ms)[:, None]
        now = np.where(np.isnan(prev), mean, np.where(np.isnan(mean), prev, prev * decay + (1.0 - decay) * mean))
        self._now[ids] = now
        return now

    def _ratio(self, sums: npt.NDArray[Any], ratio: Ratio) -> npt.NDArray[Any]:
        position = self.layout.sums.index
        above = sum(sums[position(name)] for name in ratio.above)
        below = sums[position(ratio.below)]
        quotient: npt.NDArray[Any] = np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)
        return quotient

    def _drop_keys(self, since_ms: int) -> None:
        """Drop keys whose last row is at `since_ms` or before; compact memory once that is worth the copying."""
        old = (self._as_of != NEVER) & (self._as_of <= since_ms)
        if old.any():
            self._as_of[old] = self._prev_end[old] = NEVER
            self._now[old] = self._prev[old] = np.nan
            for end, pane in self._panes.items():
                self._panes[end][:, old[: pane.shape[1]]] = 0.0
        kept = self._as_of != NEVER
        if len(kept) - kept.sum() < max(FEWEST_DROPPED, len(kept) // 2):
            return
        chosen = pa.array(kept)
        self._keys, self._names = self._keys.filter(chosen), self._names.filter(chosen)
        self._as_of, self._prev_end = self._as_of[kept], self._prev_end[kept]
        self._now, self._prev = self._now[kept], self._prev[kept]
        self._panes = {end: pane[:, kept[: pane.shape[1]]] for end, pane in self._panes.items()}

    def _drop_panes(self) -> None:
        """Drop panes that no further row can need."""
        if self._panes:
            oldest = max(self._panes) - self.lag_ms - self.horizon_ms
            self._panes = {end: pane for end, pane in self._panes.items() if end > oldest}


def lag_ms(horizon_ms: int) -> int:
    """How far behind the newest pane end a partial may be and still give rows of rolling averages."""
    return max(2 * horizon_ms, 120_000)


def _those(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | slice:
    """An index of the same elements, which copies nothing where that is all of them."""
    return slice(None) if mask.all() else mask


def _type(name: str) -> pa.DataType:
    return pa.int64() if name == "incarnation" else pa.string()


def _join_keys(table: pa.Table, keys: tuple[str, ...]) -> pa.Array:
    parts = [table[name].cast(pa.string()) for name in keys]
    joined = pc.binary_join_element_wise(*parts, _SEPARATOR)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _doubles(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    return np.asarray(pc.fill_null(column.cast(pa.float64()), float("nan")))


def _matrix(table: pa.Table, columns: tuple[str, ...]) -> npt.NDArray[Any]:
    """A row for each of the columns."""
    if table.num_rows == 0:
        return np.empty((len(columns), 0))
    return np.stack([table[name].cast(pa.float64()).to_numpy() for name in columns])
