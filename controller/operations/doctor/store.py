"""Checks the segment store of the reference brokers: without it they take and deliver no message."""

from __future__ import annotations

from collections.abc import Iterator

from controller.config.settings import Settings
from controller.domain.state import ClusterState
from controller.operations.doctor.finding import Finding, Page, fine, severe
from controller.process.reachable import why_unreachable

CONNECT_S = 2.0
RUNTIME = "reference"


def check_store(settings: Settings, state: ClusterState) -> Iterator[Finding]:
    """Whether somebody listens at `store.address`, where reference brokers are alive."""
    address = settings.store.address
    if not any(broker.runtime == RUNTIME for broker in state.live_brokers()) or address.endswith(":0"):
        return  # port 0: the store took a free one, which only the agents' configuration names
    reasons = why_unreachable([address], CONNECT_S)
    if not reasons:
        yield fine("store", f"somebody listens at {address} (store.address)")
        return
    text = f"no segment store answers from here at {reasons[0]}; without it reference brokers take and deliver nothing"
    remedy = "start it with `ballast store`, or set store.address to what the agents have; see their /healthz"
    yield severe("store", text, remedy, Page.CHECKS)
