"""A stored round, decided again from what it stored: is it the same plan, or does this version decide by other rules?

A round of other rules is neither equal nor broken: only the version that decided it could tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.domain.errors import BallastError, OtherRules
from controller.policy.round import replay_round, rules_of


class Verdict(str, Enum):
    """The outcome of a replay."""

    EQUAL = "equal"  # the same plan hash
    OTHER_RULES = "other_rules"  # decided by rules with another number
    DIFFERENT = "different"  # the same rules and another plan: the record or the code is broken
    UNREADABLE = "unreadable"  # this version cannot read what was stored


BROKEN = frozenset({Verdict.DIFFERENT, Verdict.UNREADABLE})


@dataclass(frozen=True, slots=True)
class Replayed:
    """`rules`: the number of those that decided. `text`: the verdict in words."""

    verdict: Verdict
    rules: int
    text: str


def judge(stored: Mapping[str, Any], plan_hash: str) -> Replayed:
    """Decide the round again from its stored inputs and compare with the hash that it was stored with."""
    rules = rules_of(stored)
    try:
        found = replay_round(stored)
    except OtherRules:
        return Replayed(Verdict.OTHER_RULES, rules, f"decided by rules {rules}")
    except (BallastError, LookupError, TypeError, ValueError) as error:  # fields or settings of another version
        return Replayed(Verdict.UNREADABLE, rules, f"CANNOT BE READ: {type(error).__name__}: {error}")
    if found == plan_hash:
        return Replayed(Verdict.EQUAL, rules, "equal")
    return Replayed(Verdict.DIFFERENT, rules, f"DIFFERENT: stored {plan_hash[:12]}…, decided again {found[:12]}…")
