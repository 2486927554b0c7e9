"""How long rounds take, as seen in the tables: from the commit of the loads that they wait for to their own commit."""

from __future__ import annotations

import time

from benchmarks.measure.figures import summary
from benchmarks.measure.polled import Polled
from benchmarks.measure.result import NotMeasured
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Kind
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.loads_progress import LoadsProgressWatch
from controller.service.rounds.inputs import schedule_of
from controller.service.rounds.schedule import Progress


class RoundTimes(Polled):
    """Follows loads and journal. Rounds by their time on the axis of the reports, ms.

    A round is due once a load report that is new enough has been committed: the rule is the round worker's. It ends
    when its entry is in the journal. In between, the worker looks whether one is due, reads the loads and decides, and
    the control query writes the evidence and the entry.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("bench-rounds")
        self._tables = table_root(settings)
        self._schedule = schedule_of(settings)
        self._loads, self._journal = LoadsProgressWatch(self._tables.again()), Follower(self._tables.again())
        self._journal.bootstrap()
        self._due_at_s: dict[int, float] = {}
        self._journaled_at_s: dict[int, float] = {}
        self._look_for_due()
        self._before = max(self._due_at_s, default=0)  # nobody saw when it became due

    def poll(self) -> None:
        """Note which round is due now, and which are in the journal."""
        self._look_for_due()
        entries = self._journal.catch_up()
        now_s = time.monotonic()
        for entry in entries:
            if entry.kind is Kind.ROUND and not entry.data.get("challenger"):
                self._journaled_at_s.setdefault(int(entry.data["at_ms"]), now_s)

    def figures(self) -> dict[str, dict[str, float]]:
        """Seconds from due to journaled, and those of them that the worker computed. Raises NotMeasured."""
        seen = {
            at_ms: self._journaled_at_s[at_ms] - due_at_s
            for at_ms, due_at_s in self._due_at_s.items()
            if at_ms > self._before and at_ms in self._journaled_at_s
        }
        if not seen:
            raise NotMeasured("no round became due and was journaled meanwhile: did loads arrive?")
        rows = read_joined(self._tables, "rounds").to_pylist()
        computed = [row["duration_ms"] / 1000 for row in rows if row["at_ms"] in seen]
        return {"due_to_journaled_s": summary(list(seen.values())), "computed_s": summary(computed)}

    def _look_for_due(self) -> None:
        progress = self._loads.poll()
        due = self._schedule.next_due(0, Progress(*progress)) if progress is not None else None
        if due is not None:
            self._due_at_s.setdefault(due, time.monotonic())
