"""Sends an operator's command to Kafka and waits for the journal's answer. No JVM.

The answer is read from the journal table rather than from a controller process, because only what is journaled
happens.
"""

from __future__ import annotations

import getpass
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.bus.cluster import KafkaUnavailable
from controller.bus.failures import WRITE, NoRight, describe_refusal
from controller.bus.producer import JsonProducer
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.events import VERSION
from controller.domain.state import METADATA
from controller.ledger.follower import Follower
from controller.process.clock import wall_ms
from controller.process.interrupts import check_interrupt

POLL_S = 0.1
CONFIRM_S = 30.0


class NoAnswer(BallastError):
    """Raised when the journal has no answer to a command in time: is the controller running?"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command."""

    command_id: str
    accepted: bool
    reason: str
    seq: int
    observed: bool = False  # in a cluster that decides ownership itself, and may refuse what was accepted


class Operator:
    """Sends commands and follows the journal. Close it, or use it in a `with`."""

    def __init__(self, settings: Settings, who: str | None = None) -> None:
        self._settings = settings
        self._names = settings.kafka.topics
        self._who = who or f"{getpass.getuser()}@{socket.gethostname()}"
        self._producer: JsonProducer | None = None
        self.follower = Follower(table_root(settings))
        self.follower.bootstrap()
        self.seen: list[Entry] = []  # every entry applied since the start

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush and disconnect."""
        if self._producer is not None:
            self._producer.close()

    def poll(self) -> list[Entry]:
        """The journal entries since the last call."""
        fresh = self.follower.catch_up()
        self.seen += fresh
        return fresh

    def send(self, kind: str, args: Mapping[str, Any], why: str = "", command_id: str | None = None) -> str:
        """Send the command to Kafka and return its id. A command sent twice with the same id is executed once.

        Raises KafkaUnavailable if Kafka does not confirm it, NoRight if it refuses it.
        """
        if self._producer is None:
            kafka = self._settings.kafka
            self._producer = JsonProducer(kafka.bootstrap_servers, "ballast-operator", kafka.client)
        identity = command_id or uuid.uuid4().hex
        record = {"v": VERSION, "id": identity, "kind": kind, "args": dict(args), "who": self._who, "why": why}
        meant_for = self.follower.state.journal_id or ""
        record |= {"sent_ms": wall_ms(), "journal_id": meant_for}
        sent = self._producer.send(self._names.commands, record, key=identity)
        self._producer.flush()
        if error := sent.exception(CONFIRM_S):
            if refusal := describe_refusal(error, self._settings.kafka.client, WRITE, self._names.commands):
                raise NoRight(f"command {identity} was not sent: {refusal}") from None
            raise KafkaUnavailable(
                f"Kafka did not confirm command {identity} on topic {self._names.commands} ({error}): is "
                "kafka.topic_prefix right, and has `ballast run` created the topic? (`ballast journal` tells whether "
                "it was carried out all the same)"
            )
        return identity

    def wait(self, command_id: str, timeout_s: float = 30.0) -> Outcome:
        """Wait for the journal's answer. Raises NoAnswer."""
        deadline = time.monotonic() + timeout_s
        while True:
            for entry in self.poll():
                if entry.command_id == command_id and _answers(entry):
                    accepted = entry.kind is Kind.COMMAND_ACCEPTED
                    observed = self.follower.state.authority == METADATA
                    return Outcome(command_id, accepted, entry.reason or "", entry.seq, observed)
            if time.monotonic() > deadline:
                raise NoAnswer(
                    f"command {command_id} has no answer after {timeout_s:g} s; it stays in Kafka and is carried out "
                    "when a controller runs (see `ballast status`)"
                )
            check_interrupt()
            time.sleep(POLL_S)

    def run(self, kind: str, args: Mapping[str, Any], why: str = "", timeout_s: float = 30.0) -> Outcome:
        """Send a command and wait for the answer. Arguments that are None are omitted."""
        given = {name: value for name, value in args.items() if value is not None}
        return self.wait(self.send(kind, given, why), timeout_s)


def _answers(entry: Entry) -> bool:
    return entry.kind in (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED)
