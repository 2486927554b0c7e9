"""Rows of the load tables for tests that care about their times and batches only: every other number is 1."""

from __future__ import annotations

from typing import Any

from schemas.load_tables import BROKER_PANES, BUNDLE_PANES
from schemas.record import Record

BUNDLE = "t/n/0x00000000_0xffffffff"


def broker_pane(end_ms: int, batch: int, broker: str = "a:1", writer: str = "w") -> dict[str, Any]:
    """One broker's pane."""
    row = _ones(BROKER_PANES) | {"pane_end_ms": end_ms, "broker": broker, "writer": writer, "batch_id": batch}
    return row | {"first_event_ms": end_ms - 9_000, "last_event_ms": end_ms - 1_000}


def bundle_pane(
    end_ms: int, batch: int, bundle: str = "t/n/0x00000000_0xffffffff", writer: str = "w"
) -> dict[str, Any]:
    """One bundle's pane."""
    row = _ones(BUNDLE_PANES) | {"pane_end_ms": end_ms, "bundle": BUNDLE, "namespace": "t/n"}
    return row | {"broker": "a:1", "writer": writer, "batch_id": batch}


def _ones(record: Record) -> dict[str, Any]:
    kinds: dict[str, Any] = {"long": 1, "double": 1.0, "boolean": True, "string": ""}
    return {f.name: kinds[f.type.name] for f in record if hasattr(f.type, "name")}
