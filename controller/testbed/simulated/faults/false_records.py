"""Records that nobody should believe: late ones, answers of those who were not asked, and a feed that is not the
journal's.

Agents of other brokers may write to the same topics, a producer may send a record once more long after it, and a
controller that was replaced, or one of another journal, may go on sending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from controller.agent import records
from controller.agent.handover.actions import Answer
from controller.bus.producer import to_json
from controller.domain.entries import Entry, Kind, ownership_fields
from controller.domain.ids import Session
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.service.records import Row
from controller.testbed.simulated.deployment import BROKERS, Deployment

LATE = 4  # records that come once more
ANSWERED_MS = (200, 300, 450, 700, 1_100)  # after a move was ordered
SLOW_MS, SPLITS = 1_000.0, 0.3
BEYOND = 1_000  # entries ahead of the journal
OF_NOBODY, ANOTHER_JOURNAL = "controller-of-nobody", "another"
ASKED = {
    State.TRANSFERRING: ("accepted",),
    State.ASSIGNING: ("serving", "rejected"),
    State.RELEASING: ("released", "serving", "fenced"),
    State.SPLITTING: ("split_done", "rejected"),
}


class FalseRecords:
    """Strikes a deployment. `kinds`: as those of `Nemesis`."""

    def __init__(self, deployment: Deployment, dice: Callable[[], Random]) -> None:
        self._at, self._dice = deployment, dice
        self.kinds: dict[str, tuple[int, Callable[[], str | None]]] = {
            "records come late": (2, self._repeat),
            "answers of others": (3, self._answer_for_others),
            "feed of another controller": (2, self._feed_of_another),
            "feed beyond the journal": (1, self._feed_beyond),
        }

    def _repeat(self) -> str | None:
        """A bundle goes back to a broker that had it, whose answers of that time come once more; others at random."""
        rows = [row for topic in self._at.names.all_broker_events for row in self._at.kafka.records(topic)]
        if not rows:
            return None
        dice = self._dice()
        self._append_again(dice.sample(rows, min(LATE, len(rows))))
        said = [(row, event) for row in rows if (event := json.loads(row.value or b"")).get("kind") == "serving"]
        if not said:
            return f"{LATE} of {len(rows)}"
        _, then = dice.choice(said)
        self._at.command("unload_bundle", bundle=then["bundle"], to=then["broker"])
        theirs = [row for row in rows if _is_about(row, then)]
        for after_ms in ANSWERED_MS:
            self._at.world.after(after_ms, partial(self._append_again, theirs))
        return f"{len(theirs)} of {then['broker']} about {then['bundle']}"

    def _append_again(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._at.kafka.append(row.topic, row.value or b"", row.key)

    def _answer_for_others(self) -> str | None:
        """A bundle moves, and brokers that are no party to it say what the journal waits for."""
        if not self._at.bundles():
            return None
        dice = self._dice()
        bundle, to = dice.choice(self._at.bundles()), dice.choice(BROKERS)
        if dice.random() < SPLITS:
            self._at.command("split_bundle", bundle=str(bundle))
        else:
            self._at.command("unload_bundle", bundle=str(bundle), to=to)
        for one in self._at.living():
            if bundle in one.runtime.serving():
                one.runtime.slow_ms = SLOW_MS  # so that there is time for others to speak
                self._at.world.after(2 * SLOW_MS, partial(setattr, one.runtime, "slow_ms", 0.0))
        for after_ms in ANSWERED_MS:
            self._at.world.after(after_ms, lambda: self._answer_all(dice))
        return f"while {bundle} moves to {to}"

    def _answer_all(self, dice: Random) -> None:
        state = self._at.store.state
        for record in state.bundles.values():
            others = [session for session in state.sessions if not record.names(session)]
            if record.state in IN_FLIGHT and others:
                self._say(dice.choice(others), dice.choice(ASKED[record.state]), record)

    def _say(self, session: Session, kind: str, record: Ownership) -> None:
        answer = Answer(kind, record.bundle, record.epoch)
        event = records.answer_event(session, answer, self._at.store.state.seq, 0)
        self._at.kafka.append(self._at.names.of_broker(session.broker).broker_events, to_json(event), session.broker)

    def _feed_of_another(self) -> str | None:
        """A controller that is not in charge, or of another journal, grants a bundle to somebody else."""
        entry, state = self._grant(), self._at.store.state
        if entry is None:
            return None
        if self._dice().random() < 0.5:
            self._feed(OF_NOBODY, state.journal_id, [replace(entry, instance=OF_NOBODY)])
            return f"{entry.bundle} to {entry.to}"
        self._feed(state.instance, ANOTHER_JOURNAL, [entry])
        return f"{entry.bundle} to {entry.to}, of another journal"

    def _feed_beyond(self) -> str:
        """The controller in charge seems to be far ahead."""
        state = self._at.store.state
        self._feed(state.instance, state.journal_id, [], state.seq + BEYOND)
        return f"{state.seq + BEYOND}"

    def _grant(self) -> Entry | None:
        """The next entry as it would be if a bundle went to a broker that does not have it."""
        state = self._at.store.state
        for record in self._dice().sample(list(state.bundles.values()), len(state.bundles)):
            others = [session for session in state.sessions if not record.names(session)]
            if record.state is State.OWNED and others:
                to = self._dice().choice(others)
                granted = replace(record, state=State.RELEASING, epoch=record.epoch + 1, to=to, fence=True)
                return Entry(state.seq + 1, Kind.OWNERSHIP, state.instance, 0, 0, **ownership_fields(granted))
        return None

    def _feed(self, instance: str, journal_id: str | None, entries: list[Entry], seq: int | None = None) -> None:
        said: Mapping[str, Any] = {"entries": [entry.to_row() for entry in entries]} if entries else {"seq": seq}
        record = {"v": 1, "instance": instance, "journal_id": journal_id, **said}
        self._at.kafka.append(self._at.names.journal_feed, to_json(record), None)


def _is_about(row: Row, then: Mapping[str, Any]) -> bool:
    """Whether a record is of the session that said this, and about the same bundle."""
    event = json.loads(row.value or b"")
    return all(event.get(name) == then[name] for name in ("broker", "incarnation", "nonce", "session", "bundle"))
