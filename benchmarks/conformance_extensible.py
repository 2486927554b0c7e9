"""The adapters of Pulsar's extensible manager, and of what both managers share: by kind, or by kind and strategy."""

from __future__ import annotations

from benchmarks import (
    conformance_channel,
    conformance_filters,
    conformance_load_stats,
    conformance_reports,
    conformance_splits,
    conformance_transfer,
)
from benchmarks.conformance_values import Adapters

ADAPTERS: Adapters = {
    **conformance_channel.ADAPTERS,
    **conformance_transfer.ADAPTERS,
    **conformance_splits.ADAPTERS,
    **conformance_filters.ADAPTERS,
    **conformance_load_stats.ADAPTERS,
    **conformance_reports.ADAPTERS,
}
