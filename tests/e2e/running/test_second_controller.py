"""One controller: a second one that hears the first does not start."""

from __future__ import annotations

import pytest

from controller.domain.entries import Kind
from controller.testbed.local_cluster import LocalCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.mark.covers("who-decides")
def test_a_second_controller_exits_and_names_the_holder(cluster: LocalCluster) -> None:
    holder, started = cluster.state.instance, _starts(cluster)
    second = cluster.start_job(only="control", name="second")
    code = second.wait(120)
    assert code == 3, second.last_words()
    assert holder in second.last_words()
    assert "--take-over" in second.last_words()
    assert second.log.read_text().count("\n") == 1, "told before a JVM was started"
    assert (cluster.state.instance, _starts(cluster)) == (holder, started), "it has not written anything"
    assert cluster.command("mode", mode="shadow").accepted, "the first one goes on"
    assert cluster.children["job"].alive


def _starts(cluster: LocalCluster) -> int:
    return sum(e.kind is Kind.CONTROLLER_STARTED for e in cluster.entries)
