"""How fast rounds may move: token buckets for every strategy except Pulsar's own, which have their own limits."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key


class Pacing(Section):
    """Maximum moves per minute, in bursts of two minutes' worth. Failed moves halve the pace, and time restores it."""

    broker_moves_per_min: int | None = key(
        30,
        "Maximum moves from or to one broker; empty: no limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
    namespace_moves_per_min: int | None = key(
        120, "Maximum moves of a namespace; empty: no limit.", source=DESIGN, unit="moves/min", lo=1, hi=1_000_000
    )
    cluster_moves_per_min: int | None = key(
        None,
        "Maximum moves in the whole cluster, in addition to the strategy's own limit per round; empty: no limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
