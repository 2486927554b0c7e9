"""Where an agent sends clients."""

from __future__ import annotations

import pytest

from controller.agent.directory import AgentDirectory, UnknownNamespace, find
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.state import Broker, ClusterState

BUNDLE = Bundle.parse("shop/orders/0x00000000_0xffffffff")
TOPIC = "persistent://shop/orders/t"
OLDER, NEWER = Session("b1", 1, "n", 1), Session("b1", 2, "m", 1)
INFO = {"data_address": "host:1", "lookup_url": "http://host:2"}


def view(owner: Session, registered: Session, *, alive: bool = True) -> ClusterState:
    state = ClusterState(seq=9)
    state.brokers["b1"] = Broker("b1", registered, info=INFO)
    state.sessions = {session: 1 for session in {owner, registered} if alive}
    state.namespaces["shop/orders"] = (BUNDLE,)
    state.put(Ownership(BUNDLE, State.OWNED, 3, by=owner))
    return state


@pytest.mark.covers("any-broker-answers")
def test_clients_are_sent_to_the_owners_address() -> None:
    found = find(view(OLDER, OLDER), TOPIC)
    assert (found.broker, found.address, found.lookup_url) == ("b1", "host:1", "http://host:2")
    assert (found.epoch, found.seq) == (3, 9)


def test_an_owner_whose_process_was_replaced_has_no_address_until_its_bundles_are_given_away() -> None:
    """The newer process registered another address; the older one is gone, its lease is not."""
    state = view(OLDER, NEWER)
    found = find(state, TOPIC)
    assert (found.broker, found.address, found.lookup_url) == ("", "", "")
    assert AgentDirectory(lambda: state).owner_of(TOPIC) is None


def test_an_ended_owner_is_nobody() -> None:
    assert find(view(OLDER, OLDER, alive=False), TOPIC).broker == ""


def test_unknown_namespace() -> None:
    with pytest.raises(UnknownNamespace, match="shop/other"):
        find(view(OLDER, OLDER), "persistent://shop/other/t")
