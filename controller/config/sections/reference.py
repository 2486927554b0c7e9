"""The reference broker: its modelled capacity, which actually throttles it."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key

MODEL = "model of the reference broker: it serves as much as it reports"


class Reference(Section):
    """Capacity of one reference broker. Work beyond it waits."""

    cpu_pct: float = key(200.0, "CPU it may use.", source=MODEL, unit="percent of one core", lo=1, hi=100_000)
    cpu_us_per_message: float = key(
        100.0, "CPU cost of a message, once in and once out.", source=MODEL, unit="us", lo=0, hi=1_000_000
    )
    cpu_us_per_kib: float = key(
        10.0, "CPU cost of a KiB, once in and once out.", source=MODEL, unit="us", lo=0, hi=1_000_000
    )
    bandwidth_in_bytes_per_s: float = key(
        125e6, "Bandwidth towards the broker.", source="a card of 1 Gbit/s", unit="bytes/s", lo=1, hi=1e12
    )
    bandwidth_out_bytes_per_s: float = key(
        125e6, "Bandwidth from the broker.", source="a card of 1 Gbit/s", unit="bytes/s", lo=1, hi=1e12
    )
    memory_bytes: float = key(
        536_870_912.0, "Memory it reports as its limit.", source=MODEL, unit="bytes", lo=1, hi=1e15
    )
    max_bundles: int = key(0, "Maximum bundles it accepts; 0: no limit of its own.", source=DESIGN, lo=0, hi=1_000_000)
    max_topics: int = key(0, "Maximum topics it accepts; 0: no limit of its own.", source=DESIGN, lo=0, hi=100_000_000)
