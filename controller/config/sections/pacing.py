"""Rate limits on the moves of rounds: token buckets, for every strategy except Pulsar's, which have their own."""

from __future__ import annotations

from controller.config.definition import DESIGN, Section, key


class Pacing(Section):
    """Rate limits on moves, in bursts of up to two minutes' worth. A failed move halves a rate, which then recovers."""

    broker_moves_per_min: int | None = key(
        30,
        "Maximum number of moves per minute from or to one broker, twice as many while it is overloaded; empty: no "
        "limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
    namespace_moves_per_min: int | None = key(
        120,
        "Maximum number of moves per minute of one namespace; empty: no limit.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
    cluster_moves_per_min: int | None = key(
        None,
        "Maximum number of moves per minute in the whole cluster; empty: no limit. The strategy's limit per round "
        "applies as well.",
        source=DESIGN,
        unit="moves/min",
        lo=1,
        hi=1_000_000,
    )
