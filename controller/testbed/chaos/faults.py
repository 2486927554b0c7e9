"""What goes wrong: every kind of fault by name, what it may strike, how long it lasts, and how it is undone.

Every machine has every kind, except steps of clocks, which take a C compiler: where no file system may be mounted for
the tables, failpoints of the controller stand for one that is full or read-only.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from controller.testbed.chaos.stage import JOB, KAFKA, STORE, Stage

Undo = Callable[[], None]
AGENT, TABLES = "agent", "tables"
FAR_S, NEAR_S = 3_600, 30  # steps of a wall clock
SLOW = "journal.append=delay(1500)*20"
BROKEN = "journal.append=error@5*5"
# After its claim the job commits nothing, for ten seconds: it tries eight times a second. Reads go on.
FULL = "journal.append=error@2*80;projection.write=error@1*5"
READ_ONLY = f"{FULL};evidence.write=error@1*2;evidence.step=error@1*5"


class Blow(NamedTuple):
    """One fault. `after_s`: since the storm began; `step_s`: of a clock, 0 of other faults."""

    fault: str
    target: str
    after_s: float
    span_s: float
    step_s: int = 0

    @property
    def text(self) -> str:
        """For people."""
        step = f" by {self.step_s:+d} s" if self.step_s else ""
        return f"{self.fault} strikes {self.target}{step} for {self.span_s:.1f} s"


class Fault(NamedTuple):
    """`target`: what it strikes; AGENT stands for one of them. `needs`: what this machine must allow. `step_s`: how far
    a clock is stepped, in either direction."""

    target: str
    least_s: float
    most_s: float
    strike: Callable[[Stage, Blow], Undo]
    needs: str = ""
    step_s: int = 0


def _kill(stage: Stage, blow: Blow) -> Undo:
    stage.kill(blow.target)
    return lambda: stage.release(blow.target)


def _pause(stage: Stage, blow: Blow) -> Undo:
    stage.signal(blow.target, signal.SIGSTOP)
    return lambda: stage.signal(blow.target, signal.SIGCONT)


def _cut(stage: Stage, blow: Blow, there: bool, back: bool) -> Undo:
    stage.ways[blow.target].cut(there=there, back=back)
    return stage.ways[blow.target].heal


def _step_clock(stage: Stage, blow: Blow) -> Undo:
    stage.clocks[blow.target].shift(blow.step_s)
    return lambda: stage.clocks[blow.target].shift(0)


def _fill_tables(stage: Stage, _: Blow) -> Undo:
    stage.volume.fill()
    return stage.volume.empty


def _lock_tables(stage: Stage, _: Blow) -> Undo:
    stage.volume.make_read_only()
    return stage.volume.make_writable


def _restart_with(stage: Stage, _: Blow, failpoints: str) -> Undo:
    """The next controller finds such a store, once it holds the journal; the one after it a healthy one: what is left
    of the failpoints would strike amid the calm."""
    stage.replace_controller(failpoints)
    return stage.restart_job


COMPILER = "compiler"
FAULTS: Mapping[str, Fault] = {
    "agent_killed": Fault(AGENT, 0.0, 12.0, _kill),
    "agent_paused": Fault(AGENT, 1.0, 15.0, _pause),
    "agent_cut_off": Fault(AGENT, 1.0, 15.0, partial(_cut, there=True, back=True)),
    "agent_unheard": Fault(AGENT, 1.0, 15.0, partial(_cut, there=True, back=False)),
    "agent_deaf": Fault(AGENT, 1.0, 15.0, partial(_cut, there=False, back=True)),
    "agent_clock": Fault(AGENT, 3.0, 15.0, _step_clock, COMPILER, FAR_S),
    "job_killed": Fault(JOB, 0.0, 10.0, _kill),
    "job_paused": Fault(JOB, 1.0, 15.0, _pause),
    "job_clock": Fault(JOB, 3.0, 15.0, _step_clock, COMPILER, NEAR_S),
    "journal_slow": Fault(JOB, 10.0, 20.0, partial(_restart_with, failpoints=SLOW)),
    "journal_broken": Fault(JOB, 10.0, 20.0, partial(_restart_with, failpoints=BROKEN)),
    "kafka_killed": Fault(KAFKA, 0.0, 6.0, _kill),
    "kafka_paused": Fault(KAFKA, 1.0, 12.0, _pause),
    "kafka_clock": Fault(KAFKA, 3.0, 15.0, _step_clock, COMPILER, NEAR_S),
    "store_killed": Fault(STORE, 0.0, 5.0, _kill),
    "store_paused": Fault(STORE, 0.5, 6.0, _pause),
    "store_clock": Fault(STORE, 3.0, 15.0, _step_clock, COMPILER, NEAR_S),
    "tables_full": Fault(TABLES, 2.0, 12.0, _fill_tables),
    "tables_read_only": Fault(TABLES, 2.0, 12.0, _lock_tables),
}
WITHOUT_MOUNT: Mapping[str, Fault] = {
    "tables_full": Fault(JOB, 10.0, 20.0, partial(_restart_with, failpoints=FULL)),
    "tables_read_only": Fault(JOB, 10.0, 20.0, partial(_restart_with, failpoints=READ_ONLY)),
}


def possible_faults(stage: Stage) -> dict[str, Fault]:
    """Those that this machine allows, in the form in which it does."""
    kinds = {**FAULTS, **({} if stage.volume.usable else WITHOUT_MOUNT)}
    allowed = {"": True, COMPILER: all(clock.usable for clock in stage.clocks.values())}
    return {name: fault for name, fault in kinds.items() if allowed[fault.needs]}
