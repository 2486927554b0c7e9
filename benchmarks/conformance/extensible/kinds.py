"""The adapters of Pulsar's extensible manager and of the parts that both managers share, by kind (and strategy)."""

from __future__ import annotations

from benchmarks.conformance.extensible import channel as conformance_channel
from benchmarks.conformance.extensible import filters as conformance_filters
from benchmarks.conformance.extensible import load_stats as conformance_load_stats
from benchmarks.conformance.extensible import reports as conformance_reports
from benchmarks.conformance.extensible import splits as conformance_splits
from benchmarks.conformance.extensible import transfer as conformance_transfer
from benchmarks.conformance.values import Adapters

ADAPTERS: Adapters = {
    **conformance_channel.ADAPTERS,
    **conformance_transfer.ADAPTERS,
    **conformance_splits.ADAPTERS,
    **conformance_filters.ADAPTERS,
    **conformance_load_stats.ADAPTERS,
    **conformance_reports.ADAPTERS,
}
