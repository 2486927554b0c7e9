"""Moves and how they are judged, as values: `realised.py` judges them, and takes numpy and the usage model to do it."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDS = 3  # before, the deciding one included, and as many after
NOT_YET, FULL_END, RESTARTED, UNREADABLE = "not_yet", "at_its_limit", "restarted", "unreadable"
OTHER_TRAFFIC, BY_TRAFFIC = "other_traffic", "by_traffic"


@dataclass(frozen=True, slots=True)
class Move:
    """An executed move of the round whose frame has this index."""

    round: int
    bundle: str
    source: str
    target: str | None  # None: nobody knows where it went


@dataclass(frozen=True, slots=True)
class Judged:
    """All moves of a round off and onto one broker, as shares of its limit; negative: usage falls.

    `moves`: that many together. `half_width`: of the 90 % interval around `predicted`. `realised` is None if `why_not`
    says why it is not judged; `missing`: rounds to go while it is NOT_YET. `by_prior`: next to nothing was known of
    these bundles, so that they were taken to cost what traffic costs.
    """

    round: int
    broker: str
    moves: int
    predicted: float
    half_width: float
    realised: float | None
    why_not: str = ""
    missing: int = 0
    by_prior: bool = False

    @property
    def inside(self) -> bool:
        """Realised, and within the interval."""
        return self.realised is not None and abs(self.realised - self.predicted) <= self.half_width
