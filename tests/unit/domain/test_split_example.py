"""The example of the article on bundles, with its own ranges: my-topic-1 is cut at 0x80000000, its upper half moves on.

Its bundles are whole rings of a topic each; here a topic is a namespace of one bundle. A cut in the middle that nobody
chose is one hash lower, as in Pulsar (`Bundle.middle`).
"""

from __future__ import annotations

import pytest

from controller.domain.ids import RING_END, Bundle, Session
from controller.domain.ownership import State
from tests.unit.control.step_driver import StepDriver

MIDDLE = 0x80000000
TOPICS = [Bundle(f"my-tenant/my-topic-{number}", 0, RING_END) for number in (1, 2, 3)]
LOWER, UPPER = TOPICS[0].split_at(MIDDLE)


def three_brokers() -> tuple[StepDriver, list[Session]]:
    """Each with the bundle of one topic."""
    driver = StepDriver()
    brokers = [driver.join(f"broker-{number}") for number in (1, 2, 3)]
    for session, bundle in zip(brokers, TOPICS, strict=True):
        driver.command("create_namespace", namespace=bundle.namespace, bundles=1)
        driver.own(session, bundle)
    return driver, brokers


def distribution(driver: StepDriver) -> dict[str, str]:
    """Living bundle -> the broker that owns it."""
    owned = {name: record.by for name, record in driver.state.bundles.items() if record.state is State.OWNED}
    return {name: by.broker for name, by in owned.items() if by is not None}


@pytest.mark.covers("split-example", "split-parent-retired")
@pytest.mark.parametrize("by", ["agent", "operator"])
def test_the_upper_half_goes_to_broker_2_and_the_old_bundle_is_no_more(by: str) -> None:
    driver, (one, two, _) = three_brokers()
    before = driver.of(TOPICS[0]).epoch
    if by == "agent":
        driver.say(one, "split_proposed", TOPICS[0], boundary=MIDDLE, reason="113_split_bandwidth")
    else:
        driver.command("split_bundle", bundle=str(TOPICS[0]), boundary=MIDDLE, unload=True)
    assert driver.of(TOPICS[0]).state is State.SPLITTING
    driver.say(one, "split_done", TOPICS[0])
    assert driver.of(UPPER).to == two
    driver.say(two, "accepted", UPPER)
    driver.say(one, "released", UPPER)
    driver.say(two, "serving", UPPER)
    assert distribution(driver) == {
        "my-tenant/my-topic-1/0x00000000_0x80000000": "broker-1",
        "my-tenant/my-topic-1/0x80000000_0xffffffff": "broker-2",
        "my-tenant/my-topic-2/0x00000000_0xffffffff": "broker-2",
        "my-tenant/my-topic-3/0x00000000_0xffffffff": "broker-3",
    }
    assert driver.of(TOPICS[0]).state is State.RETIRED
    assert min(driver.of(LOWER).epoch, driver.of(UPPER).epoch) > before  # nobody writes under the old one any more


@pytest.mark.covers("split-in-two")
def test_every_hash_is_in_one_half_only() -> None:
    for hash_ in (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        assert LOWER.contains(hash_) is (hash_ <= 0x7FFFFFFF)
        assert UPPER.contains(hash_) is (hash_ >= 0x80000000)
