"""Named points at which a test makes this process fail: killed, paused, slow, or with an input/output error.

Purpose: a crash "between evidence and journal" is tested in the very program that runs in production, at that very
line. Off unless the environment variable BALLAST_FAILPOINTS is set when the process starts; then a point costs one
look at an empty mapping. The idea is that of fail-rs (TiKV) and gofail (etcd).

    BALLAST_FAILPOINTS="control.before_journal=kill@3;journal.append=delay(500)"

`POINT=ACTION[@N][*M]`: from the N-th hit on (1 without), M times (for ever without; a killed process needs none).
Actions: `kill` (SIGKILL), `stop` (SIGSTOP), `delay(MS)`, `error` (OSError as a broken store raises it).
Invariant: a point that is not in POINTS, or an action that does not exist, stops the start.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import dataclass, field

from controller.domain.errors import ConfigError

VARIABLE = "BALLAST_FAILPOINTS"

POINTS = {
    "agent.feed_entries": "an agent has heard a commit on the feed; with `error` it knows of the seq, not what it says",
    "control.before_step": "rows are read, nothing is computed",
    "control.before_evidence": "the step is done, nothing is written",
    "evidence.write": "a round's first evidence table is written, the others are not",
    "evidence.step": "decisions of the step itself are about to be written",
    "control.before_journal": "evidence and quarantine are written, the journal is not",
    "control.before_feed": "the journal is committed, the feed says nothing yet",
    "control.before_projection": "the feed has spoken, the projections are old",
    "journal.append": "just before the journal's commit is handed to the store",
    "journal.appended": "the store has committed, its answer is not yet in hand",
    "journal.read_log": "looking into the journal's log for what became of a commit",
    "projection.write": "between the projections' first table and the next",
}
_FORM = re.compile(r"(?P<action>kill|stop|error|delay)(\((?P<ms>\d+)\))?(@(?P<first>\d+))?(\*(?P<times>\d+))?")


@dataclass(slots=True)
class Failpoint:
    """What happens at one point. `hits` counts on, so that a test can say at which one."""

    name: str
    action: str
    delay_ms: int = 0
    first: int = 1
    times: int | None = None
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reach(self) -> None:
        """Count the hit and act when it is its turn."""
        with self.lock:
            self.hits += 1
            turn = self.hits - self.first
        if turn < 0 or (self.times is not None and turn >= self.times):
            return
        if self.action == "delay":
            time.sleep(self.delay_ms / 1000)
        elif self.action == "error":
            raise OSError(f"failpoint {self.name}: the store does not answer")
        else:
            # to this thread: one sent to the process is another thread's to take, and this one would go on meanwhile
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL if self.action == "kill" else signal.SIGSTOP)


def parse(text: str) -> dict[str, Failpoint]:
    """The failpoints of one setting, by name. Raises ConfigError that names what is wrong."""
    found: dict[str, Failpoint] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, wanted = part.partition("=")
        if name not in POINTS:
            raise ConfigError(f"{VARIABLE}: no failpoint {name}; there are {', '.join(POINTS)}")
        form = _FORM.fullmatch(wanted)
        if form is None or (form["ms"] is None) == (form["action"] == "delay"):
            raise ConfigError(f"{VARIABLE}: {part}: give kill, stop, error or delay(MS), then @N and *M if wanted")
        times = int(form["times"]) if form["times"] else None
        found[name] = Failpoint(name, form["action"], int(form["ms"] or 0), int(form["first"] or 1), times)
    return found


_active = parse(os.environ.get(VARIABLE, ""))


def reach(name: str) -> None:
    """Say that the process is at this point. Costs nothing when no failpoint is set."""
    if _active and name in _active:
        _active[name].reach()


def activate(text: str) -> None:
    """Replace what is active, for a test within the process; an empty text switches all off."""
    _active.clear()
    _active.update(parse(text))
