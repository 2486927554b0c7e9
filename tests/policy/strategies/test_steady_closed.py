"""Namespaces without moves left: a broker that has nothing else to give is looked into once, not for each idle one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from controller.decide.line import parse_line
from controller.decide.session import DecideSession
from controller.domain.decision import Decision, DecisionKind
from controller.domain.settings.policy import PacingSettings, PolicySettings
from controller.policy.strategies.steady.pairs import Candidates
from controller.policy.strategies.steady.planner import Planner
from controller.sim.field.cluster import draw_cluster
from controller.sim.field.observation import Observer
from controller.sim.field.players import StrategyPlayer
from controller.sim.field.scenarios import drifting
from tests.sim.decide.decide_lines import Lines


def test_a_namespace_within_the_name_of_another_stays_open() -> None:
    """`ballast decide` takes any names."""
    moved = []
    for other in ("acme/eu", "other/eu"):
        lines = Lines()
        spaces = {f"{space}/0x{at:08x}_0x{at + 1:08x}": 8.0 for space in ("acme", other) for at in range(6)}
        lines.broker("a:8080", spaces).broker("b:8080").broker("c:8080")
        pacing = PacingSettings(namespace_moves_per_min=1, broker_moves_per_min=None)
        session = DecideSession("steady", PolicySettings(pacing=pacing))
        moved.append([d.bundle.rpartition("/")[0].replace(other, "other") for d in _moves_of(session, lines)])
    assert sorted(moved[0]) == sorted(moved[1]) == ["acme", "acme", "other", "other"]


def _moves_of(session: DecideSession, lines: Lines) -> list[Decision]:
    decisions = session.decide(session.snapshot(parse_line(lines.next())))
    return [d for d in decisions if d.kind is DecisionKind.TRANSFER]


def test_who_has_nothing_free_is_not_asked_again_until_a_namespace_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    in_vain: Counter[tuple[int, int]] = Counter()
    free_of = Planner._free_of

    def note(planner: Planner, source: int) -> Candidates | None:
        found = free_of(planner, source)
        if found is None:
            in_vain[source, len(planner.chosen.closed)] += 1
        return found

    monkeypatch.setattr(Planner, "_free_of", note)
    dice = np.random.default_rng(3)
    cluster = draw_cluster(dice, 100, 10_000)
    story, observer = drifting(cluster, dice), Observer(cluster, dice)
    player = StrategyPlayer("steady", PolicySettings(pacing=PacingSettings(namespace_moves_per_min=5)), observer)
    for number in range(2):
        in_vain.clear()
        for bundle, broker in player.decide(observer.observe(number, story.happen(number))):
            cluster.owner[bundle] = broker
        assert len(in_vain) > 20
        assert max(in_vain.values()) <= 2, "once to be relieved, once to fill others"
