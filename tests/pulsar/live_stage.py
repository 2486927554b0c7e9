"""Ballast beside a real cluster, for the tests that kill and disturb: what runs, what is ordered, what became of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.operations.operator import Outcome
from controller.testbed.pulsar.ballast import BallastOnPulsar
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.traffic.traffic import Traffic

SOON_S, LATER_S = 90.0, 240.0
MOST_TRIES = 3


class Stage:
    """The running system, and what the tests ask of it."""

    def __init__(self, pulsar: PulsarCluster, ballast: BallastOnPulsar, traffic: Traffic) -> None:
        self.pulsar, self.ballast, self.traffic = pulsar, ballast, traffic

    @property
    def extensible(self) -> bool:
        return self.pulsar.spec.manager == "extensible"

    def name_of(self, broker: str) -> str:
        """`broker1` of `127.0.0.1:18081`."""
        return next(name for name in self.pulsar.spec.broker_names if self.pulsar.spec.broker_id(name) == broker)

    def owner(self, bundle: str) -> str | None:
        """According to the journal."""
        seen = self.ballast.state.observed.bundles.get(bundle)
        return seen.broker if seen is not None and not seen.stale and not seen.disputed else None

    def other(self, *brokers: str | None) -> str:
        """A broker that is none of these."""
        return next(b.id for b in self.ballast.state.live_brokers() if b.id not in brokers)

    def bundles(self, namespace: str) -> list[str]:
        return sorted(name for name in self.ballast.state.observed.bundles if name.startswith(f"{namespace}/"))

    def wait_until(self, holds: Callable[[ClusterState], bool], what: str, timeout_s: float = SOON_S) -> ClusterState:
        return self.ballast.wait_until(holds, timeout_s, what)

    def order(self, bundle: str, target: str | None) -> str:
        """Command the move of a bundle; returns the command's id."""
        to = {"to": target} if target is not None else {}
        return self.ballast.command("unload_bundle", bundle=bundle, **to)

    def try_order(self, bundle: str, target: str) -> Outcome:
        """Command the move of a bundle, which may be rejected; returns the controller's answer."""
        return self.ballast.cluster.command("unload_bundle", bundle=bundle, to=target)

    def is_open(self, command_id: str) -> bool:
        """Whether the command's order is open."""
        return any(order.command_id == command_id for order in self.ballast.state.observed.orders.values())

    def count(self, *kinds: Kind) -> int:
        """How many entries of these kinds the journal has."""
        return sum(entry.kind in kinds for entry in self.ballast.entries)

    def ends_of(self, command_id: str) -> list[Entry]:
        return [e for e in self.ballast.entries if e.kind is Kind.ORDER_ENDED and e.command_id == command_id]

    def end_of(self, command_id: str, timeout_s: float = LATER_S) -> Entry:
        """The end of the command's order: there is exactly one."""
        self.wait_until(lambda state: bool(self.ends_of(command_id)), f"the end of order {command_id}", timeout_s)
        (end,) = self.ends_of(command_id)
        return end

    def move(self, bundle: str, target: str | None) -> Entry:
        return self.end_of(self.order(bundle, target))

    def arrive(self, bundle: str, avoided: str | None = None) -> None:
        """Move the bundle to a broker other than its owner and the avoided one. The modular load manager may need
        another try, as a client can be faster than the target (docs/decisions/0014)."""
        for _ in range(1 if self.extensible else MOST_TRIES):
            target = self.other(self.settled(bundle), avoided)
            end = self.move(bundle, target)
            if end.data["outcome"] not in ("stayed", "elsewhere"):
                break
        assert (end.data["outcome"], end.broker) == ("moved", target), end

    def truth(self, bundle: str) -> list[str]:
        """The brokers that list the bundle, asked now."""
        admin, spec = self.pulsar.admin, self.pulsar.spec
        return [spec.broker_id(n) for n in spec.broker_names if bundle in (admin.owned_bundles(n) or ())]

    def signal(self, broker: str, how: signal.Signals) -> None:
        """Pause or resume a broker's process."""
        change = self.pulsar.pause if how is signal.SIGSTOP else self.pulsar.resume
        change(self.name_of(broker))

    def admin(self, method: str, path: str, json: Any = None, at: str | None = None) -> None:
        """Ask the broker `at`, or any."""
        broker = self.pulsar.servers.running_brokers()[0] if at is None else self.name_of(at)
        answer = self.pulsar.admin.request(method, broker, path, json, timeout_s=60)
        assert answer.status_code < 300, answer.text

    def exists(self, path: str, at: str) -> bool:
        return self.pulsar.admin.request("GET", self.name_of(at), path).status_code == 200

    def settled(self, bundle: str) -> str:
        """Wait until the bundle is observed at one broker and free for orders; returns the broker."""

        def free(state: ClusterState) -> bool:
            block = state.observed.blocks.get(bundle)
            certain = self.owner(bundle) is not None and (block is None or not block.in_doubt_seq)
            return certain and (self.extensible or not state.observed.is_range_kept_by_another(bundle))

        self.wait_until(free, f"{bundle} to be free for orders", LATER_S)
        return str(self.owner(bundle))
