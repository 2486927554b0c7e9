"""The adapters of Pulsar's modular manager: by kind, or by kind and strategy."""

from __future__ import annotations

from benchmarks import (
    conformance_load_data,
    conformance_place,
    conformance_place_manager,
    conformance_shed,
    conformance_split_task,
)
from benchmarks.conformance_values import Adapters

ADAPTERS: Adapters = {
    **conformance_shed.ADAPTERS,
    **conformance_place.ADAPTERS,
    **conformance_place_manager.ADAPTERS,
    **conformance_split_task.ADAPTERS,
    **conformance_load_data.ADAPTERS,
}
