"""Named points at which a test can make this process fail: killed, paused, slowed down, or with an I/O error.

They test a crash "between evidence and journal" in the production code, at exactly that line. They are off unless the
environment variable BALLAST_FAILPOINTS is set at start, and then cost a lookup in an empty mapping. Modelled on fail-rs
(TiKV) and gofail (etcd).

    BALLAST_FAILPOINTS="control.before_journal=kill@3;journal.append=delay(500)"

`POINT=ACTION[@N][*M]`: acts from the N-th hit on (default 1), M times (default: always).
Actions: `kill` (SIGKILL), `stop` (SIGSTOP), `delay(MS)`, `error` (OSError, as of a broken store).
Invariant: the process does not start with an unknown point or action.
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
    "agent.feed_entries": "an agent has read a commit from the feed; `error` drops its entries, but not its seq",
    "control.before_step": "rows are read, nothing is computed yet",
    "control.before_evidence": "the step is done, nothing is written yet",
    "evidence.write": "a round's first evidence table is written, the others are not yet",
    "evidence.step": "the step's own decisions are about to be written",
    "control.before_journal": "evidence and quarantine are written, the journal is not yet",
    "control.before_feed": "the journal is committed, the feed is not sent yet",
    "control.before_projection": "the feed is sent, the projections are not written yet",
    "journal.append": "just before the journal's commit is passed to the store",
    "journal.appended": "the store has committed, and its answer has not arrived yet",
    "journal.read_log": "about to read the journal's log for the outcome of a commit",
    "projection.write": "between the first table of the projections and the next",
}
_FORM = re.compile(r"(?P<action>kill|stop|error|delay)(\((?P<ms>\d+)\))?(@(?P<first>\d+))?(\*(?P<times>\d+))?")


@dataclass(slots=True)
class Failpoint:
    """The action of one point. `hits` counts all hits, so that a test can choose one."""

    name: str
    action: str
    delay_ms: int = 0
    first: int = 1
    times: int | None = None
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reach(self) -> None:
        """Count the hit, and act if it is one of those chosen."""
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
            # Sent to this thread: another one could take a signal to the process, and this one would run on.
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL if self.action == "kill" else signal.SIGSTOP)


def parse(text: str) -> dict[str, Failpoint]:
    """Parse a value of BALLAST_FAILPOINTS into failpoints by name. Raises ConfigError."""
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
    """Act if a failpoint is set here."""
    if _active and name in _active:
        _active[name].reach()


def activate(text: str) -> None:
    """Replace the active failpoints, for a test within the process; an empty text switches all off."""
    _active.clear()
    _active.update(parse(text))
