"""One controller, with the real job: a second one, a take-over, a pause through a take-over, two at once.

The same at every point of a batch, without Spark: `tests/component/test_one_controller.py`.
"""

from __future__ import annotations

import pytest

from tests.e2e.waiting import wait_until
from tests.faults.site import Site, settled, starters

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]

EXIT_ANOTHER, EXIT_REPLACED = 3, 4


def test_a_second_one_a_take_over_and_a_sleeper(site: Site) -> None:
    first = site.started()
    site.serve(4)
    holder = site.journal.state.instance

    second = site.start()
    assert second.wait() == EXIT_ANOTHER
    assert f"controller {holder} is alive" in second.said()
    assert "--take-over" in second.said()
    site.stir()
    site.check()
    assert starters(site.journal.entries) == [holder], "the second has not written anything, the first goes on"

    third = site.started("--take-over")
    assert first.wait() == EXIT_REPLACED, first.said()[-1500:]
    third_instance = site.journal.state.instance
    assert third_instance in first.said()
    assert third_instance != holder

    third.pause()
    fourth = site.started()  # silence for a lease is enough
    fourth_instance = site.journal.state.instance
    site.stir()
    site.wait(settled, "moves under the fourth", fourth)
    third.wake()
    assert third.wait() == EXIT_REPLACED, third.said()[-1500:]
    assert fourth_instance in third.said()
    site.stir()
    site.wait(settled, "the fourth goes on", fourth)
    entries = site.check()
    assert starters(entries) == [holder, third_instance, fourth_instance]
    begun = next(e.seq for e in entries if e.instance == fourth_instance)
    assert {e.instance for e in entries if e.seq >= begun} == {fourth_instance}, "nothing of the sleeper counts"
    site.check_projections()
    assert fourth.stop() == 0


def test_of_two_started_at_once_one_survives(site: Site) -> None:
    """On an empty journal nobody listens for anybody: the commit of `controller_started` decides, and the loser, which
    looks again, hears the winner."""
    rivals = [site.start(), site.start()]
    site.command("create_namespace", namespace="t/n", bundles=2)
    site.wait(lambda s: "t/n" in s.namespaces, "a controller")
    wait_until(lambda: not all(job.alive for job in rivals), 180)
    (loser,) = [job for job in rivals if not job.alive]
    assert loser.wait() == EXIT_ANOTHER, loser.said()[-1500:]
    survivor = next(job for job in rivals if job is not loser)
    assert site.journal.state.instance in loser.said()
    site.command("create_namespace", namespace="t/later", bundles=1)
    site.wait(lambda s: "t/later" in s.namespaces, "the survivor goes on", survivor)
    site.check()
    assert survivor.stop() == 0


def test_of_two_started_at_once_in_two_folders_one_is_left_and_the_other_names_it(site: Site) -> None:
    """Another folder is another journal: only the topics can tell that there are two."""
    elsewhere = str(site.folder / "elsewhere")
    jobs = [site.start(), site.start("--set", f"tables.root={elsewhere}")]
    wait_until(lambda: not all(job.alive for job in jobs), 180)
    (loser,) = [job for job in jobs if not job.alive]
    (winner,) = [job for job in jobs if job is not loser]
    assert loser.wait() == EXIT_ANOTHER, loser.said()[-1500:]
    assert (site.settings.tables.root if winner is jobs[0] else elsewhere) in loser.said()
    assert winner.alive
    assert winner.stop() == 0
