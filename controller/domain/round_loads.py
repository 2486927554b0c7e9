"""What a round knew of loads, in the form in which it comes back to the control step: placements go by it until the
next round.

Bytes instead of objects: a round of 1,000 brokers that report 100 bundles each hands over 9 MB, which are copied and
not parsed. It is no part of a round's plan: not hashed, not stored, gone with the controller that heard it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundLoads:
    """B brokers and N bundles by C columns: first `scored` resources, then quantities that have a cap.

    `used` and `limit` are float64 [B x C] in native order: usage, and what counts as 1 in a broker's score (the limit
    divided by its weight, infinite where unknown) or the cap. A broker of which nothing is known has NaN everywhere.
    `costs` are float32 [N x C]; `bundles` are the names, sorted, one a line. Ownership is that of `state_seq`, with
    what was under way counted as done. A broker with a score of `full` or more gets nothing while another is below.
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
