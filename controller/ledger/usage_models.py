"""Stores the usage model of the rounds in the table `usage_model`, and reads it back bit by bit.

Each write replaces the whole table in one commit. A model that cannot be read, or that is not what its hash says, is as
good as none: `NoUsageModel` says why, and rounds start from the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import BallastError, IncompatibleTable
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.store.room import writing
from controller.ledger.tables import TableRoot, as_root, for_table
from controller.policy.usage.drivers import DRIVERS, Drivers, Evidence
from controller.policy.usage.kept import Learned, describe_layout, hash_of, name_scalars
from controller.policy.usage.model import NEVER, BrokerStates, BundleStates, UsageModel, name_columns
from schemas.arrow import arrow_schema
from schemas.usage_table import USAGE_MODEL

NAME = USAGE_MODEL.name
MODEL, DRIVER, BROKER, BUNDLE = "model", "driver", "broker", "bundle"
TERMS = (*DRIVERS, "constant")  # of the regression
WITH = tuple(f"with_{term}" for term in TERMS)

_States = TypeVar("_States", BrokerStates, BundleStates)


class NoUsageModel(BallastError):
    """Raised when no stored usage model can be used; the text says why."""


def write_model(root: TableRoot | str | Path, learned: Learned, hash_: str) -> None:
    """Replace the stored model. `hash_`: of it (`kept.hash_of`). Its brokers and bundles are in order of name, as in a
    frame.

    Raises CommitFailedError, DeltaError or OSError when the table cannot be written; the stored model is then as it
    was.
    """
    tables = as_root(root)
    try:
        handle = tables.handle(NAME)
        with writing(tables.uri(NAME)):
            write_deltalake(
                handle,
                for_table(handle, model_rows(learned, hash_)),
                mode="overwrite",
                commit_properties=CommitProperties(max_commit_retries=0, custom_metadata={"ballast.usage_hash": hash_}),
            )
    except (CommitFailedError, DeltaError, OSError):
        tables.forget(NAME)
        raise


def read_model(root: TableRoot | str | Path) -> Learned:
    """The stored model. Raises NoUsageModel."""
    tables = as_root(root)
    log = tables.log(NAME)
    try:
        if not tables.exists(NAME):
            raise NoUsageModel(f"table {tables.uri(NAME)} does not exist")
        rows = retry_on_vacuum(lambda: read_range(tables.open(NAME), log, USAGE_MODEL, "at_ms", above=-1))
    except (DeltaError, OSError, pa.ArrowException, IncompatibleTable) as error:
        raise NoUsageModel(f"table {tables.uri(NAME)} cannot be read: {error}") from error
    if not rows.num_rows:
        raise NoUsageModel(f"table {tables.uri(NAME)} has no rows yet")
    return model_of(rows)


def model_rows(learned: Learned, hash_: str) -> pa.Table:
    """The rows of a model: its own, its drivers', its brokers', its bundles'."""
    model, drivers = learned.model, learned.model.drivers
    own: dict[str, Any] = {name: [getattr(model, name)] for name in name_scalars()}
    own |= {"hash": [hash_], "layout": [describe_layout()]}
    if drivers is not None:
        own |= {"evidence_rounds": [drivers.evidence.rounds], "usual_cost": [drivers.usual_cost]}
    bundles = _columns(model.bundles) | {"carrier": _carrier_names(model)}
    parts = [_rows(MODEL, ["usage"], own)]
    if drivers is not None:
        parts.append(_rows(DRIVER, TERMS, _driver_columns(drivers)))
    parts += [_rows(BROKER, model.brokers.names, _columns(model.brokers)), _rows(BUNDLE, model.bundles.names, bundles)]
    whole = pa.concat_tables(parts, promote_options="default")
    whole = whole.append_column("at_ms", pa.repeat(pa.scalar(learned.at_ms, pa.int64()), whole.num_rows))
    schema = arrow_schema(USAGE_MODEL)
    return pa.table([_column(whole, f) for f in schema], schema=schema).combine_chunks()


def model_of(rows: pa.Table) -> Learned:
    """The model that `model_rows` gave these rows. Raises NoUsageModel for rows of another version, or broken ones."""
    own = rows.filter(pc.equal(rows["kind"], MODEL)).to_pylist()
    if len(own) != 1:
        raise NoUsageModel(f"the stored usage model has {len(own)} rows of kind model instead of one")
    if own[0]["layout"] != describe_layout():
        raise NoUsageModel(
            f"the stored usage model is of layout {own[0]['layout']}, this one reads {describe_layout()}"
        )
    try:
        learned = Learned(_model_of(rows, own[0]), own[0]["at_ms"])
        found = hash_of(learned)
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise NoUsageModel(f"the stored usage model is incomplete: {error}") from error
    if found != own[0]["hash"]:
        raise NoUsageModel(f"the stored usage model has hash {found}, and was written with {own[0]['hash']}")
    return learned


def _rows(kind: str, names: Sequence[str], columns: Mapping[str, Any]) -> pa.Table:
    types = arrow_schema(USAGE_MODEL)
    arrays = {name: pa.array(values, types.field(name).type) for name, values in columns.items()}
    return pa.table({"kind": pa.repeat(pa.scalar(kind), len(names)), "name": pa.array(names, pa.string()), **arrays})


def _column(rows: pa.Table, f: pa.Field) -> pa.Array | pa.ChunkedArray:
    return rows[f.name] if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)


def _columns(states: BrokerStates | BundleStates) -> dict[str, Any]:
    return {name: getattr(states, name) for name in name_columns(type(states))}


def _carrier_names(model: UsageModel) -> pa.Array:
    at = model.bundles.carrier.astype(np.int64)
    return pa.array(model.brokers.names, pa.string()).take(pa.array(at, mask=at < 0))


def _driver_columns(drivers: Drivers) -> dict[str, Any]:
    columns: dict[str, Any] = {"share": [*drivers.share.tolist(), None], "unit": [*drivers.unit.tolist(), None]}
    columns |= {"base": [*[None] * len(DRIVERS), drivers.base], "with_usage": drivers.evidence.answers}
    return columns | {name: drivers.evidence.products[:, at] for at, name in enumerate(WITH)}


def _model_of(rows: pa.Table, own: Mapping[str, Any]) -> UsageModel:
    brokers, bundles = _of_kind(rows, BROKER), _of_kind(rows, BUNDLE)
    carrier = pc.fill_null(pc.index_in(bundles["carrier"], value_set=brokers["name"]), int(NEVER)).cast(pa.float64())
    bundles = bundles.set_column(bundles.column_names.index("carrier"), "carrier", carrier)
    return UsageModel(
        **{name: own[name] for name in name_scalars()},
        drivers=_drivers_of(rows, own),
        brokers=_states_of(BrokerStates, brokers),
        bundles=_states_of(BundleStates, bundles),
    )


def _of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.filter(pc.equal(rows["kind"], kind)).sort_by("name")


def _states_of(kind: type[_States], rows: pa.Table) -> _States:
    names = tuple(rows["name"].to_pylist())
    return kind(names=names, **{name: _numbers(rows[name]) for name in name_columns(kind)})


def _drivers_of(rows: pa.Table, own: Mapping[str, Any]) -> Drivers | None:
    if own["evidence_rounds"] is None:
        return None
    found = rows.filter(pc.equal(rows["kind"], DRIVER))
    found = found.take(pc.index_in(pa.array(TERMS), value_set=found["name"]))
    size = len(DRIVERS)
    products = np.column_stack([_numbers(found[name]) for name in WITH])
    evidence = Evidence(products, _numbers(found["with_usage"]), own["evidence_rounds"])
    share, unit = (_numbers(found[name])[:size] for name in ("share", "unit"))
    return Drivers(share, unit, float(_numbers(found["base"])[size]), own["usual_cost"], evidence)


def _numbers(column: pa.ChunkedArray) -> Any:
    """The values, writable; null becomes NaN."""
    return np.array(column.combine_chunks().to_numpy(zero_copy_only=False), np.float64)
