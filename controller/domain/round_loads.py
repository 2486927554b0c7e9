"""The loads that a round knew, as the control step receives them: the basis of placements until the next round.

Bytes instead of objects: a round of 1,000 brokers with 100 bundles each returns 9 MB, which are copied without parsing.
They are not part of the round's plan: neither hashed nor stored, and lost with the controller that received them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundLoads:
    """B brokers and N bundles by C columns: first `scored` resources, then quantities that have a cap.

    `used` and `limit` are float64 [B x C] in native byte order: the usage, and the usage that gives a score of 1 (the
    limit divided by its weight, infinite where unknown) or the cap. A broker without load data has NaN everywhere.
    `costs` are float32 [N x C]; `bundles` are the sorted names, one per line. Ownership is that of `state_seq`, with
    moves in flight counted as done. A broker with a score of `full` or more gets nothing while another is below it.
    """

    round_id: str
    state_seq: int
    full: float
    scored: int
    brokers: tuple[str, ...]
    used: bytes
    limit: bytes
    bundles: bytes
    costs: bytes
