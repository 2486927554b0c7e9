"""The layouts of the two rolling averages, of brokers and of bundles: their keys, sums and derived columns.

Reading, averaging and writing use these values, on the driver and in Spark alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.domain.load import BUNDLE_FIELDS, RATES, RESOURCES
from controller.loads.columns import TIMES

MARKER = ("writer", "batch_id")  # the columns of every load table that identify the writing batch


@dataclass(frozen=True)
class Ratio:
    """A derived column: sum of `above` divided by sum of `below`, null where `below` is 0."""

    name: str
    above: tuple[str, ...]
    below: str


@dataclass(frozen=True)
class Layout:
    """The layout of a rolling average. `longs` are the ratios that also get a decayed average, as (ratio, column)."""

    panes: str
    load: str
    keys: tuple[str, ...]
    carried: tuple[str, ...]  # columns that follow from the keys
    sums: tuple[str, ...]
    ratios: tuple[Ratio, ...]
    longs: tuple[tuple[Ratio, str], ...]
    has_short_from: bool = False


def _broker() -> Layout:
    ratios: list[Ratio] = []
    longs: list[tuple[Ratio, str]] = []
    for name in RESOURCES:
        utilisation = Ratio(f"{name}_utilisation", (f"{name}_usage_sum",), f"{name}_limit_sum")
        ratios += [
            Ratio(f"{name}_usage", (f"{name}_usage_sum",), f"{name}_known"),
            Ratio(f"{name}_limit", (f"{name}_limit_sum",), f"{name}_known"),
            utilisation,
        ]
        longs.append((utilisation, f"{name}_utilisation_long"))
    plain = (*TIMES, *BUNDLE_FIELDS, "bundles")
    ratios += [Ratio(name, (f"{name}_sum",), "reports") for name in plain]
    resource_sums = [f"{name}_{part}" for name in RESOURCES for part in ("usage_sum", "limit_sum", "known")]
    return Layout(
        panes="broker_panes",
        load="broker_load",
        keys=("broker", "incarnation"),
        carried=(),
        sums=("reports", *resource_sums, *(f"{name}_sum" for name in plain)),
        ratios=tuple(ratios),
        longs=tuple(longs),
        has_short_from=True,
    )


def _bundle() -> Layout:
    return Layout(
        panes="bundle_panes",
        load="bundle_load",
        keys=("bundle", "broker"),
        carried=("namespace",),
        sums=("reports", *(f"{name}_sum" for name in BUNDLE_FIELDS)),
        ratios=tuple(Ratio(name, (f"{name}_sum",), "reports") for name in BUNDLE_FIELDS),
        longs=(
            (Ratio("msg_rate", tuple(f"{name}_sum" for name in RATES[:2]), "reports"), "msg_rate_long"),
            (Ratio("throughput", tuple(f"{name}_sum" for name in RATES[2:]), "reports"), "throughput_long"),
        ),
    )


BROKER = _broker()
BUNDLE = _bundle()
