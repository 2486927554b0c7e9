"""How fast rounds may move: token buckets behind every strategy but Pulsar's own, which have limits of theirs."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key


class Pacing(Section):
    """Most moves a minute; two minutes' worth may be made at once. Moves that fail halve the pace, time restores it."""

    broker_moves_per_min: int | None = key(
        30,
        "Moves that one broker gives away or takes; empty: no limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
    namespace_moves_per_min: int | None = key(
        120, "Moves of one namespace's bundles; empty: no limit.", source=DESIGN, unit="moves/min", lo=1, hi=1_000_000
    )
    cluster_moves_per_min: int | None = key(
        None,
        "Moves in the whole cluster, besides what the strategy allows itself in a round; empty: no limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
