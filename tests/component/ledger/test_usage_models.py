"""The table `usage_model`: what is written is read bit by bit, or the reader says why not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings

from controller.ledger.cleanup import ControlCleanup, Kept
from controller.ledger.maintenance import DAY_MS
from controller.ledger.tables import TableRoot
from controller.ledger.usage_models import NoUsageModel, model_of, model_rows, read_model, write_model
from controller.policy.usage import kept
from controller.policy.usage.kept import Learned, hash_of, name_columns, name_scalars
from controller.policy.usage.model import BrokerStates, BundleStates, UsageModel
from controller.process.clock import wall_ms
from schemas.usage_table import USAGE_MODEL
from tests.examples import examples
from tests.policy.usage.models import model_of_size, odd_models


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def bits(learned: Learned) -> list[object]:
    """Everything that a model consists of, floats as their bytes."""
    model = learned.model
    scalars = [getattr(model, name) for name in name_scalars()]
    found: list[object] = [learned.at_ms]
    found += [np.float64(value).tobytes() if isinstance(value, float) else value for value in scalars]
    for states in (model.brokers, model.bundles):
        found += [states.names, *(getattr(states, name).tobytes() for name in name_columns(type(states)))]
    if model.drivers is not None:
        evidence = model.drivers.evidence
        arrays = (model.drivers.share, model.drivers.unit, evidence.products, evidence.answers, model.drivers.base)
        found += [*(np.ascontiguousarray(values, np.float64).tobytes() for values in arrays), evidence.rounds]
    return found


def test_the_table_has_a_column_for_everything_a_model_consists_of() -> None:
    wanted = {*name_scalars(), *name_columns(BrokerStates), *name_columns(BundleStates)}
    assert wanted <= set(USAGE_MODEL.names)


@given(odd_models())
@settings(max_examples=examples(60))
def test_any_model_comes_back_bit_by_bit(learned: Learned) -> None:
    back = model_of(model_rows(learned, hash_of(learned)))
    assert bits(back) == bits(learned)
    assert hash_of(back) == hash_of(learned)


@pytest.mark.parametrize("model", [UsageModel(), model_of_size(3, 0), model_of_size(0, 0), model_of_size(7, 900)])
def test_a_written_model_is_read_bit_by_bit(root: TableRoot, model: UsageModel) -> None:
    for at_ms in (60_000, 120_000):
        learned = Learned(model, at_ms)
        write_model(root, learned, hash_of(learned))
        assert bits(read_model(TableRoot(root.root))) == bits(learned)
    history = root.open("usage_model").history(1)
    assert history[0]["ballast.usage_hash"] == hash_of(learned)
    names = [*model.brokers.names, *model.bundles.names]
    rows = root.open("usage_model").to_pyarrow_table().num_rows
    assert rows == 1 + (5 if model.drivers else 0) + len(names), "the first round's rows are gone"


def test_what_was_read_can_be_learned_on(root: TableRoot) -> None:
    learned = Learned(model_of_size(3, 40), 1)
    write_model(root, learned, hash_of(learned))
    back = read_model(root).model
    back.bundles.factor[0] = 2.0
    assert back.bundles.factor.flags.writeable


def stored(root: TableRoot) -> Learned:
    learned = Learned(model_of_size(3, 40), 60_000)
    write_model(root, learned, hash_of(learned))
    return learned


def _overwrite(root: TableRoot, change: Callable[[pa.Table], pa.Table]) -> None:
    table = root.open("usage_model")
    write_deltalake(table, change(table.to_pyarrow_table()), mode="overwrite")


def _double_a_factor(rows: pa.Table) -> pa.Table:
    factors = pc.if_else(pc.equal(rows["name"], "t/n/00000007"), 2.0, rows["factor"])
    return rows.set_column(rows.column_names.index("factor"), "factor", factors)


def _lose_a_bundle(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["name"], "t/n/00000007"))


def _lose_the_model(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["kind"], "model"))


def _lose_drivers(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["kind"], "driver"))


def _lose_brokers(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["kind"], "broker"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_double_a_factor, "has hash"),
        (_lose_a_bundle, "has hash"),
        (_lose_drivers, "has hash"),
        (_lose_brokers, "has hash"),
        (_lose_the_model, "0 rows of kind model"),
        (lambda rows: rows.slice(0, 0), "no rows yet"),
        (lambda rows: pa.concat_tables([rows, rows]), "2 rows of kind model"),
    ],
)
def test_a_model_that_was_changed_is_not_believed(
    root: TableRoot, change: Callable[[pa.Table], pa.Table], why: str
) -> None:
    stored(root)
    _overwrite(root, change)
    with pytest.raises(NoUsageModel, match=why):
        read_model(root)


def test_a_model_of_another_version_is_not_believed(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(root)
    monkeypatch.setattr(kept, "MEANING", 99)
    with pytest.raises(NoUsageModel, match=r"layout 1-\w+, this one reads 99-"):
        read_model(root)


def test_a_damaged_table_is_no_model(root: TableRoot) -> None:
    with pytest.raises(NoUsageModel, match="no rows yet"):
        read_model(root)
    learned = stored(root)
    (file,) = Path(root.root, "usage_model").glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(NoUsageModel, match="cannot be read"):
        read_model(root)
    file.unlink()
    with pytest.raises(NoUsageModel, match="cannot be read"):
        read_model(root)
    write_model(root, learned, hash_of(learned))
    assert bits(read_model(root)) == bits(learned), "the next round's replaces all of it"


def test_a_table_that_is_not_there_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(NoUsageModel, match="does not exist"):
        read_model(tmp_path / "nowhere")


def test_versions_do_not_pile_up_and_the_writer_goes_on(root: TableRoot) -> None:
    """Hours in small: versions of the last two seconds are kept."""
    short = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 2 seconds")
    root.open("usage_model").alter.set_table_properties({**short, "delta.checkpointInterval": "10"})
    model = model_of_size(3, 40)
    for at_ms in range(1, 26):
        write_model(root, Learned(model, at_ms), hash_of(Learned(model, at_ms)))
    time.sleep(2.2)
    for at_ms in range(26, 37):
        write_model(root, Learned(model, at_ms), hash_of(Learned(model, at_ms)))
    ControlCleanup(root, Kept(DAY_MS, DAY_MS)).run(wall_ms())
    folder = Path(root.uri("usage_model"))
    assert len(list(folder.glob("*.parquet"))) < 20
    assert not (folder / "_delta_log" / f"{1:020}.json").exists()
    for at_ms in (37, 38):
        write_model(root, Learned(model, at_ms), hash_of(Learned(model, at_ms)))
        assert read_model(TableRoot(root.root)).at_ms == at_ms
