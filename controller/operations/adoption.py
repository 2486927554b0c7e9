"""Who is in charge of a Pulsar cluster according to the journal, and the journal's side of a release.

A release must work without a controller and even without Kafka: its commands then wait in Kafka for the next
controller, or are left to be sent later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from enum import Enum

from deltalake.exceptions import DeltaError

from controller.agent.cluster.another_cluster import find_another_cluster
from controller.bus.cluster import KafkaUnavailable, check_reachable
from controller.config.settings import Settings
from controller.domain.entries import Kind
from controller.domain.errors import BallastError
from controller.domain.facts import order_allowance_ms
from controller.domain.observed import END_RELEASE, RELEASE, Adoption
from controller.domain.state import ClusterState
from controller.operations.liveness import SILENT_AFTER_MS, last_word
from controller.operations.operator import POLL_S, NoAnswer, Operator
from controller.operations.reading import Reader
from controller.process.clock import wall_ms

AFTER_DEADLINE_S = 10.0  # for the controller to end an order whose deadline has passed


class AnotherCluster(BallastError):
    """Raised when the Pulsar cluster that answers is not the one that the journal is about."""


class Rejected(BallastError):
    """Raised when the journal rejects a command of a release."""


class Reach(str, Enum):
    """How far the newest command came."""

    JOURNAL = "journal"  # a controller has carried it out
    KAFKA = "kafka"  # nobody answers: it waits for the next controller, which carries it out before any order
    NOWHERE = "nowhere"  # Kafka does not answer


def read_state(settings: Settings) -> ClusterState | None:
    """What these tables say; None where there are none, or none that can be read."""
    try:
        return Reader(settings).state()
    except (BallastError, DeltaError, OSError):
        return None


def read_adoption(settings: Settings) -> Adoption | None:
    """The newest word on the cluster of these tables; None also where there are no tables."""
    state = read_state(settings)
    return None if state is None else state.observed.adoption


def refuse_another_cluster(
    settings: Settings, state: ClusterState | None, cluster: str, brokers: Iterable[str]
) -> None:
    """Raise AnotherCluster if a journal's settings were written to a Pulsar cluster that is not its own."""
    found = None if state is None else find_another_cluster(state, cluster, brokers)
    if found is not None:
        raise AnotherCluster(f"nothing was written: {found}; {where_to_look(settings)}")


def where_to_look(settings: Settings) -> str:
    """The next step for a service URL and tables that do not belong together."""
    urls = ", ".join(settings.pulsar_cluster.service_urls)
    return (
        f"{urls} was asked, with the tables in {settings.tables.root}: give the --service-url of these tables' "
        "cluster, or that cluster's tables by --conf or --set tables.root=PATH. If all brokers of the right cluster "
        "have other ids now, let `ballast agent --runtime pulsar --new-brokers` register them first"
    )


def controller_lives(settings: Settings) -> bool:
    """Whether a controller was heard within seconds. Raises KafkaUnavailable."""
    kafka = settings.kafka
    check_reachable(kafka.bootstrap_servers)
    heard = last_word(kafka.bootstrap_servers, kafka.client, kafka.topics)
    return heard is not None and wall_ms() - heard.at_ms <= SILENT_AFTER_MS


class ReleaseJournal:
    """The journal's side of one release: `begin`, `wait_for_orders`, then `end` once the settings are back."""

    def __init__(self, settings: Settings, operator: Operator) -> None:
        self._settings, self._operator = settings, operator
        self.reach = Reach.NOWHERE
        self.trouble = ""  # what Kafka said
        self.dropped = 0  # orders that waited for their turn

    @property
    def open_orders(self) -> int:
        """How many orders the journal has open."""
        return len(self._operator.follower.state.observed.orders)

    def begin(self, why: str, timeout_s: float) -> None:
        """Stop further orders. Raises Rejected."""
        self._send(RELEASE, why, timeout_s)
        mine = [e for e in self._operator.seen if e.kind is Kind.ADOPTION]
        self.dropped = int(mine[-1].data.get("dropped") or 0) if mine else 0

    def wait_for_orders(self, on_progress: Callable[[int], None]) -> int:
        """Wait until no order is open, at most until their deadlines; returns how many still are."""
        state = self._operator.follower.state
        longest_ms = max(
            (order_allowance_ms(state.observed.facts, o.source, state.modular) for o in state.observed.orders.values()),
            default=0,
        )
        deadline_s, last = time.monotonic() + longest_ms / 1000 + AFTER_DEADLINE_S, 0
        while self.open_orders and time.monotonic() < deadline_s:
            if self.open_orders != last:
                last = self.open_orders
                on_progress(last)
            time.sleep(POLL_S)
            self._operator.poll()
        return self.open_orders

    def end(self, why: str, timeout_s: float) -> None:
        """The settings are back: note it. Raises Rejected, as when somebody adopted the cluster meanwhile."""
        if self.reach is not Reach.NOWHERE:
            self._send(END_RELEASE, why, timeout_s)

    def _send(self, kind: str, why: str, timeout_s: float) -> None:
        living = self.reach is not Reach.KAFKA and self._may_be_answered()
        try:
            check_reachable(self._settings.kafka.bootstrap_servers)  # else the client tries for half a minute
            command_id = self._operator.send(kind, {}, why)
        except KafkaUnavailable as error:
            self.reach, self.trouble = Reach.NOWHERE, str(error)
            return
        self.reach = Reach.KAFKA
        if not living:
            return
        try:
            outcome = self._operator.wait(command_id, timeout_s)
        except NoAnswer:
            return
        if not outcome.accepted:
            raise Rejected(f"rejected: {outcome.reason} (command {command_id})")
        self.reach = Reach.JOURNAL

    def _may_be_answered(self) -> bool:
        """Whether a controller was just heard. Where Kafka does not tell in time, one may be there."""
        try:
            return controller_lives(self._settings)
        except KafkaUnavailable:
            return True
