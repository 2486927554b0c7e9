"""The adapters of Pulsar's modular manager, by kind (and strategy)."""

from __future__ import annotations

from benchmarks.conformance.modular import load_data as conformance_load_data
from benchmarks.conformance.modular import place as conformance_place
from benchmarks.conformance.modular import place_manager as conformance_place_manager
from benchmarks.conformance.modular import shed as conformance_shed
from benchmarks.conformance.modular import split_task as conformance_split_task
from benchmarks.conformance.values import Adapters

ADAPTERS: Adapters = {
    **conformance_shed.ADAPTERS,
    **conformance_place.ADAPTERS,
    **conformance_place_manager.ADAPTERS,
    **conformance_split_task.ADAPTERS,
    **conformance_load_data.ADAPTERS,
}
