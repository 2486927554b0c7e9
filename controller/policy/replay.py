"""A stored round, decided again from what it stored: is it the same plan, or does this version decide by other rules?

`decide_as` decides stored rounds by another strategy. A round of other rules is neither equal nor broken: only the
version that decided it could tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from controller.domain.errors import BallastError, OtherRules
from controller.policy.plan import Plan, make_plan
from controller.policy.round import read_settings, replay_round, rules_of
from controller.policy.strategies import get
from controller.policy.view.frame import Frame
from controller.policy.view.snapshot import from_frame


def decide_as(stored: Sequence[Mapping[str, Any]], strategy: str) -> Plan:
    """What `strategy` would have decided in the last of these stored rounds, had it seen them all and moved nothing.

    It begins without memory at the first one: give a few rounds, oldest first. A stored round names only the bundles
    that the strategy in charge considered. Raises BadRecord or ConfigError for what this version cannot read.
    """
    memory: Mapping[str, Any] = {}
    plan = None
    for inputs in json.loads(json.dumps(stored)):
        settings = read_settings(inputs["settings"])
        snapshot = from_frame(Frame.from_json(inputs["frame"]), settings)
        plan = make_plan(snapshot, get(strategy).name, memory, settings, challenger=True)
        memory = plan.outcome.memory
    if plan is None:
        raise ValueError("no round is given")
    return plan


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
