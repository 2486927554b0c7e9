"""What goes wrong: every kind of fault by name, what it may strike, how long it lasts, and how it is undone."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from controller.testbed.chaos.stage import JOB, KAFKA, STORE, Stage

Undo = Callable[[], None]
AGENT, TABLES = "agent", "tables"
FAR_S, NEAR_S = 3_600, -30  # steps of a wall clock
SLOW = "journal.append=delay(1500)*20"
BROKEN = "journal.append=error@5*5"


class Fault(NamedTuple):
    """`target`: what it strikes; AGENT stands for one of them. `needs`: what this machine must allow."""

    target: str
    least_s: float
    most_s: float
    strike: Callable[[Stage, str], Undo]
    needs: str = ""


def _kill(stage: Stage, name: str) -> Undo:
    stage.kill(name)
    return lambda: stage.release(name)


def _pause(stage: Stage, name: str) -> Undo:
    stage.signal(name, signal.SIGSTOP)
    return lambda: stage.signal(name, signal.SIGCONT)


def _cut(stage: Stage, name: str, there: bool, back: bool) -> Undo:
    stage.ways[name].cut(there=there, back=back)
    return stage.ways[name].heal


def _step_clock(stage: Stage, name: str, seconds: int) -> Undo:
    stage.clocks[name].shift(seconds)
    return lambda: stage.clocks[name].shift(0)


def _fill_tables(stage: Stage, _: str) -> Undo:
    stage.volume.fill()
    return stage.volume.empty


def _lock_tables(stage: Stage, _: str) -> Undo:
    stage.volume.make_read_only()
    return stage.volume.make_writable


def _restart_with(stage: Stage, name: str, failpoints: str) -> Undo:
    """The next controller finds such a store; the one after it a healthy one."""
    stage.job_failpoints = failpoints
    stage.kill(name)
    stage.release(name)
    return lambda: None


MOUNT, COMPILER = "mount", "compiler"
FAULTS: Mapping[str, Fault] = {
    "agent_killed": Fault(AGENT, 0.0, 12.0, _kill),
    "agent_paused": Fault(AGENT, 1.0, 15.0, _pause),
    "agent_cut_off": Fault(AGENT, 1.0, 15.0, partial(_cut, there=True, back=True)),
    "agent_unheard": Fault(AGENT, 1.0, 15.0, partial(_cut, there=True, back=False)),
    "agent_deaf": Fault(AGENT, 1.0, 15.0, partial(_cut, there=False, back=True)),
    "agent_clock_ahead": Fault(AGENT, 3.0, 15.0, partial(_step_clock, seconds=FAR_S), COMPILER),
    "job_killed": Fault(JOB, 0.0, 10.0, _kill),
    "job_paused": Fault(JOB, 1.0, 15.0, _pause),
    "job_clock_back": Fault(JOB, 3.0, 15.0, partial(_step_clock, seconds=NEAR_S), COMPILER),
    "journal_slow": Fault(JOB, 20.0, 30.0, partial(_restart_with, failpoints=SLOW)),
    "journal_broken": Fault(JOB, 20.0, 30.0, partial(_restart_with, failpoints=BROKEN)),
    "kafka_killed": Fault(KAFKA, 0.0, 6.0, _kill),
    "kafka_paused": Fault(KAFKA, 1.0, 12.0, _pause),
    "kafka_clock_ahead": Fault(KAFKA, 3.0, 15.0, partial(_step_clock, seconds=-NEAR_S), COMPILER),
    "store_killed": Fault(STORE, 0.0, 5.0, _kill),
    "store_paused": Fault(STORE, 0.5, 6.0, _pause),
    "tables_full": Fault(TABLES, 2.0, 12.0, _fill_tables, MOUNT),
    "tables_read_only": Fault(TABLES, 2.0, 12.0, _lock_tables, MOUNT),
}


def possible_faults(stage: Stage) -> list[str]:
    """Those that this machine allows."""
    allowed = {"": True, MOUNT: stage.volume.usable, COMPILER: all(clock.usable for clock in stage.clocks.values())}
    return [name for name, fault in FAULTS.items() if allowed[fault.needs]]
