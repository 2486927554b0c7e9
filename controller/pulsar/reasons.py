"""Pulsar's own vocabulary of decisions: labels and reasons of UnloadDecision and SplitDecision, and their counters.

Surprise: a whole unload cycle yields only one skip reason; why a single bundle was refused exists in Pulsar as a debug
log at most. The names are Pulsar's metric labels (brk_lb_unload_broker_breakdown_total and its neighbours).
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
