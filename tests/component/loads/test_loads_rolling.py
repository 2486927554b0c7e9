"""Rolling averages on the driver against a plain Python model, batch by batch; recovery from what was written."""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import controller.loads.rolling_averages as rolling_module
from controller.loads.layout import BROKER, BUNDLE
from controller.loads.rolling_averages import RollingAverages, lag_ms

HORIZON_MS, HALF_LIFE_MS, PANE_MS = 60_000, 600_000, 10_000
Partial = tuple[int, str, int, float]  # pane end, bundle, reports, sum


def partials(rows: list[Partial]) -> pa.Table:
    """Partial panes in which every field's sum is the given one times its position."""
    columns: dict[str, list[object]] = {
        "pane_end_ms": [r[0] for r in rows],
        "bundle": [r[1] for r in rows],
        "broker": ["b1"] * len(rows),
        "namespace": ["t/ns"] * len(rows),
        "reports": [r[2] for r in rows],
    }
    for position, name in enumerate(BUNDLE.sums[1:], start=1):
        columns[name] = [r[3] * position for r in rows]
    schema = {"pane_end_ms": pa.int64(), "bundle": pa.string(), "broker": pa.string(), "namespace": pa.string()}
    return pa.table({name: pa.array(values, schema.get(name, pa.float64())) for name, values in columns.items()})


class Model:
    """The same rule, written for one bundle at a time."""

    def __init__(self) -> None:
        self.panes: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.longs: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.newest = 0

    def fold(self, rows: list[Partial]) -> dict[tuple[str, int], tuple[int, float, float]]:
        out = {}
        start = {bundle: history[-1][0] for bundle, history in self.longs.items()}
        kept = [r for r in rows if r[0] > self.newest - lag_ms(HORIZON_MS)]
        for as_of, group in self._groups(kept, start):
            for end, bundle, reports, total in group:
                self.panes[bundle, end][0] += reports
                self.panes[bundle, end][1] += total
            for bundle in {r[1] for r in group}:
                window = [v for (b, e), v in self.panes.items() if b == bundle and as_of - HORIZON_MS < e <= as_of]
                reports, total = sum(v[0] for v in window), sum(v[1] for v in window)
                out[bundle, as_of] = (int(reports), total / reports, self._long(bundle, as_of))
        self.newest = max([self.newest, *(r[0] for r in rows)])
        return out

    def _groups(self, rows: list[Partial], start: dict[str, int]) -> list[tuple[int, list[Partial]]]:
        found: dict[int, list[Partial]] = defaultdict(list)
        for r in rows:
            found[max(r[0], start.get(r[1], 0))].append(r)
        return sorted(found.items())

    def _long(self, bundle: str, as_of: int) -> float:
        reports, total = self.panes[bundle, as_of]
        mean, history = 3 * total / reports, self.longs[bundle]  # messages in + out: the first and the second sum
        if history and history[-1][0] == as_of:
            history.pop()
        if history:
            end, before = history[-1]
            decay = 0.5 ** ((as_of - end) / HALF_LIFE_MS)
            mean = before * decay + (1 - decay) * mean
        history.append((as_of, mean))
        return mean


def found(table: pa.Table) -> dict[tuple[str, int], tuple[int, float, float]]:
    return {
        (r["bundle"], r["as_of_ms"]): (r["reports"], r["msg_rate_in"], r["msg_rate_long"]) for r in table.to_pylist()
    }


def random_batches(seed: int) -> list[list[Partial]]:
    """Sixty batches: bundles that come and go, late partials, panes split over batches, jumps over many panes."""
    rng = random.Random(seed)
    now, batches = 1_000_000, []
    for _ in range(60):
        batch: dict[tuple[int, str], Partial] = {}
        for _ in range(rng.randrange(1, 12)):
            end = (now // PANE_MS + 1) * PANE_MS - PANE_MS * rng.choice([0, 0, 0, 1, 1, 2, 4, 9, 30])
            bundle = f"n{rng.randrange(6)}"
            batch[end, bundle] = (end, bundle, rng.randrange(1, 4), rng.uniform(0, 100))
        batches.append(list(batch.values()))
        now += rng.choice([2_000, 2_000, 5_000, 40_000, 200_000])
    return batches


def check(rolling: RollingAverages, model: Model, batch: list[Partial]) -> pa.Table:
    newest = model.newest
    table = rolling.fold(partials(batch), newest)
    expected = model.fold(batch)
    got = found(table)
    assert set(got) == set(expected)
    for key, values in expected.items():
        assert got[key] == pytest.approx(values, rel=1e-9)
    return table


@pytest.mark.covers("rolling-average")
@pytest.mark.parametrize("seed", range(5))
def test_rows_equal_the_model(seed: int) -> None:
    rolling, model = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS), Model()
    for batch in random_batches(seed):
        check(rolling, model, batch)


@pytest.mark.parametrize("seed", range(5))
def test_recovered_state_goes_on_as_if_nothing_happened(seed: int) -> None:
    rolling, model = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS), Model()
    panes: list[pa.Table] = []
    loads: list[pa.Table] = []
    for number, batch in enumerate(random_batches(seed)):
        if number % 7 == 6:
            rolling = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS)
            rolling.recover(pa.concat_tables(panes), pa.concat_tables(loads))
        load = check(rolling, model, batch)
        panes.append(partials(batch))
        loads.append(load.append_column("batch_id", pa.array([number] * load.num_rows, pa.int64())))


def test_one_large_batch_gives_the_rows_of_many_small_ones() -> None:
    ordered = [(1_000_000 + PANE_MS * step, "n1", 2, 10.0 * step) for step in range(1, 31)]
    small, large = (RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS) for _ in range(2))
    one_by_one: dict[tuple[str, int], tuple[int, float, float]] = {}
    newest = 0
    for partial in ordered:
        one_by_one |= found(small.fold(partials([partial]), newest))
        newest = partial[0]
    assert found(large.fold(partials(ordered), 0)) == one_by_one


def test_unknown_values_stay_null_and_leave_the_long_average_alone() -> None:
    def pane(end: int, usage: float, known: int) -> pa.Table:
        columns: dict[str, pa.Array] = {name: pa.array([0.0]) for name in BROKER.sums}
        columns |= {
            "reports": pa.array([2.0]),
            "cpu_usage_sum": pa.array([usage]),
            "cpu_known": pa.array([float(known)]),
        }
        columns["cpu_limit_sum"] = pa.array([100.0 * known])
        keys = {"pane_end_ms": pa.array([end]), "broker": pa.array(["b1"]), "incarnation": pa.array([1])}
        return pa.table(keys | columns)

    rolling = RollingAverages(BROKER, PANE_MS, HALF_LIFE_MS)
    first = rolling.fold(pane(1_010_000, 100.0, 2), 0).to_pylist()[0]
    second = rolling.fold(pane(1_020_000, 0.0, 0), 1_010_000).to_pylist()[0]
    assert (first["cpu_usage"], first["cpu_limit"], first["cpu_utilisation"]) == (50.0, 100.0, 0.5)
    assert (second["cpu_usage"], second["cpu_limit"], second["cpu_utilisation"]) == (None, None, None)
    assert first["cpu_utilisation_long"] == second["cpu_utilisation_long"] == 0.5
    assert second["memory_utilisation_long"] is None
    assert second["short_from_ms"] == 1_010_000


def test_what_moved_away_is_forgotten_with_the_room_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rounds in which every bundle gets another name: what is held follows what lives, not what has been."""
    monkeypatch.setattr(rolling_module, "FEWEST_DROPPED", 100)
    keep_ms, lively = 600_000, 20
    rolling, newest = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS, keep_ms), 0
    most = 0
    for end in range(PANE_MS, 1_000 * PANE_MS, PANE_MS):
        names = ["stays", *(f"{end}-{n}" for n in range(lively))]
        rows = rolling.fold(partials([(end, name, 1, 1.0) for name in names]), newest)
        assert rows.num_rows == len(names)
        newest, most = end, max(most, len(rolling._keys))
    held = lively * (keep_ms // PANE_MS + 1) + 1
    assert most <= 2 * held + 100
    assert {len(array) for array in (rolling._names, rolling._as_of, rolling._prev_end, rolling._now)} == {
        len(rolling._keys)
    }
    assert all(len(pane) <= len(rolling._keys) for pane in rolling._panes.values())


@pytest.mark.parametrize("fewest", [1, 1_000])
def test_a_key_that_comes_back_is_as_new_as_after_a_restart(monkeypatch: pytest.MonkeyPatch, fewest: int) -> None:
    monkeypatch.setattr(rolling_module, "FEWEST_DROPPED", fewest)
    rng, keep_ms = random.Random(5), 200_000
    running, newest = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS, keep_ms), 0
    panes: list[pa.Table] = []
    loads: list[pa.Table] = []
    for batch, end in enumerate(range(PANE_MS, 150 * PANE_MS, PANE_MS)):
        names = [name for n, name in enumerate("abcdef") if (end // PANE_MS // (10 * (n + 1))) % 2 == 0]
        given = partials([(end, name, rng.randint(1, 3), rng.uniform(1, 9)) for name in names or ["a"]])
        restarted = RollingAverages(BUNDLE, HORIZON_MS, HALF_LIFE_MS, keep_ms)
        if panes:
            lag = newest - lag_ms(HORIZON_MS) - HORIZON_MS
            before, load = pa.concat_tables(panes), pa.concat_tables(loads)
            recent = load.filter(pc.greater(load["as_of_ms"], newest - keep_ms))
            restarted.recover(before.filter(pc.greater(before["pane_end_ms"], lag)), recent)
        rows, again = running.fold(given, newest), restarted.fold(given, newest)
        mine, theirs = found(rows), found(again)
        assert mine.keys() == theirs.keys()
        assert all(mine[key] == pytest.approx(theirs[key], rel=1e-9) for key in theirs)
        panes.append(given)
        loads.append(rows.append_column("batch_id", pa.array([batch] * rows.num_rows)))
        newest = end
