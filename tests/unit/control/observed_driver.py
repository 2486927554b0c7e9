"""A controller of a Pulsar cluster for tests: three brokers, one namespace of four bundles, one agent.

driver = observed_driver()
driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
driver.end_order(BUNDLES[0], "moved", owner="b:1")
"""

from __future__ import annotations

from typing import Any

from controller.domain.entries import Entry
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle, Session
from controller.domain.observed import bundles_of_ring
from controller.domain.ring import initial_bundles
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import METADATA
from tests.unit.control.step_driver import StepDriver

NAMESPACE, BROKERS = "t/n", ("a:1", "b:1", "c:1")
BUNDLES = tuple(initial_bundles(NAMESPACE, 4))
RING = (*(bundle.lower for bundle in BUNDLES), 0xFFFFFFFF)
CONFIGURATION = {
    "manager": "modular", "version": "4.0.8", "shedding": False, "auto_split": False,
    "unload_timeout_ms": 60_000, "stats_period_ms": 5_000,
}  # fmt: skip


class ObservedDriver(StepDriver):
    """`tell` sends an event of the agent; bundles 0 and 3 are at a:1, 1 at b:1, 2 at c:1."""

    def tell(self, broker: str, kind: str, bundle: Bundle | None = None, **data: Any) -> list[Entry]:
        session = self.sessions[broker]
        return self.run(BrokerEvent(kind, session, self.state.seq, bundle, data=data))

    def configure(self, broker: str, **changes: Any) -> None:
        self.tell(broker, "fact", key=f"broker:{broker}", value={**CONFIGURATION, **changes})

    def observe(self, broker: str, *bundles: Bundle) -> list[Entry]:
        return self.run(
            BrokerEvent("observed", self.sessions[broker], self.state.seq, serving={str(b): 0 for b in bundles})
        )

    def owner(self, bundle: Bundle) -> str | None:
        return self.state.observed.bundles[str(bundle)].broker

    def order_id(self, bundle: Bundle) -> str:
        return self.state.observed.orders[str(bundle)].id

    def end_order(self, bundle: Bundle, outcome: str, **told: Any) -> list[Entry]:
        order = self.state.observed.orders[str(bundle)]
        return self.tell(order.source, "order_ended", bundle, id=order.id, outcome=outcome, **told)

    def rejection(self) -> str:
        """Why the newest command was rejected."""
        entry = next(e for e in reversed(self.journal) if e.kind.value.startswith("command_"))
        assert entry.kind.value == "command_rejected", "it was accepted"
        return str(entry.reason)


def observed_driver(settings: ControlSettings | None = None, **configuration: Any) -> ObservedDriver:
    driver = ObservedDriver(settings)
    for broker in BROKERS:
        driver.join(broker, nonce="agent", authority=METADATA, runtime="pulsar", can_fence=False)
        driver.configure(broker, **configuration)
    driver.tell("a:1", "ring", namespace=NAMESPACE, boundaries=list(RING))
    assert tuple(bundles_of_ring(NAMESPACE, driver.state.observed.rings[NAMESPACE])) == BUNDLES
    driver.observe("a:1", BUNDLES[0], BUNDLES[3])
    driver.observe("b:1", BUNDLES[1])
    driver.observe("c:1", BUNDLES[2])
    return driver


def session_of(driver: ObservedDriver, broker: str) -> Session:
    return driver.sessions[broker]
