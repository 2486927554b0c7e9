"""Pulsar's own labels and reasons of decisions: UnloadDecision and SplitDecision, and the counters of each.

Surprise: a whole unload cycle has only one skip reason; why a single bundle was skipped appears at most in Pulsar's
debug log. The names are the labels of Pulsar's metrics (brk_lb_unload_broker_breakdown_total and similar ones).
"""

from __future__ import annotations

from enum import Enum


class UnloadLabel(str, Enum):
    """UnloadDecision.Label."""

    SUCCESS = "Success"
    SKIP = "Skip"
    FAILURE = "Failure"


class UnloadReason(str, Enum):
    """UnloadDecision.Reason."""

    OVERLOADED = "Overloaded"
    UNDERLOADED = "Underloaded"
    ADMIN = "Admin"
    HIT_COUNT = "HitCount"
    NO_BUNDLES = "NoBundles"
    COOL_DOWN = "CoolDown"
    OUTDATED_DATA = "OutDatedData"
    NO_LOAD_DATA = "NoLoadData"
    NO_BROKERS = "NoBrokers"
    UNKNOWN = "Unknown"


class SplitLabel(str, Enum):
    """SplitDecision.Label."""

    SUCCESS = "Success"
    FAILURE = "Failure"


class SplitReason(str, Enum):
    """SplitDecision.Reason."""

    TOPICS = "Topics"
    SESSIONS = "Sessions"
    MSG_RATE = "MsgRate"
    BANDWIDTH = "Bandwidth"
    ADMIN = "Admin"
    UNKNOWN = "Unknown"
