"""Faults: brokers that come, go, die, slow down, fall silent or are cut off, and when.

A fault is a value; `timeline` orders the beginnings and ends of faults. `fault_injection.py` applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.domain.errors import ConfigError

CRASH, LEAVE, JOIN, SLOW, SILENT, CUT, RESTART = "crash", "leave", "join", "slow", "silent", "cut", "restart"
LAG = "lag"
# kind -> what it does, for error messages and the documentation
FAULTS = {
    CRASH: "the process dies; its lease runs out; with `for` it is started again after that time",
    LEAVE: "the process is asked to go: it hands everything over first; with `for` it comes back",
    JOIN: "a new broker starts, with `cores` of its own",
    SLOW: "the broker needs `factor` times as much CPU for the same work, for `for`",
    SILENT: "its load reports are lost, for `for`; everything else works",
    LAG: "it reads nothing of the journal, for `for`; heartbeats and load reports go on",
    CUT: "it cannot reach Kafka, for `for`: its lease runs out although it lives",
    RESTART: "the controller is killed and starts again; names no broker",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `for_ms`: 0 for permanently."""

    kind: str
    broker: str
    at_ms: int
    for_ms: int = 0
    factor: float = 2.0
    cores: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise ConfigError(f"fault {self.kind!r} is none of {', '.join(FAULTS)}")
        if (self.kind == RESTART) != (self.broker == ""):
            raise ConfigError(f"fault {self.kind} with broker={self.broker!r}: all but {RESTART} name a broker")
        if self.kind == CUT and not self.for_ms:
            raise ConfigError("fault cut needs for=…: a broker that is cut off for good is one that crashed")
        if self.factor <= 0:
            raise ConfigError(f"factor={self.factor} of a slow broker: above 0")


@dataclass(frozen=True, slots=True)
class Turn:
    """The beginning or end of a fault."""

    at_ms: int
    begins: bool
    fault: Fault


def timeline(faults: Iterable[Fault]) -> list[Turn]:
    """Beginnings and ends ordered by time; those of one time keep the given order."""
    turns = []
    for fault in faults:
        turns.append(Turn(fault.at_ms, True, fault))
        if fault.for_ms:
            turns.append(Turn(fault.at_ms + fault.for_ms, False, fault))
    return sorted(turns, key=lambda turn: turn.at_ms)
