"""Rules of placement in the simulator: its own judgement of them, and the commands of scenario files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.errors import ConfigError, InvariantBroken
from controller.domain.ids import Session
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import BrokerCaps, PolicySettings
from controller.domain.state import Broker, ClusterState
from controller.sim.placement_check import check_placement, count_misplaced, domain_gap
from controller.sim.round_invariants import check_round
from controller.sim.scenario.file import run_file

RULES = PlacementSettings(
    (IsolationPolicy("alpha", ("alpha/.*",), ("p[12]",)),),
    (FailureDomain("r1", ("x1", "x2")), FailureDomain("r2", ("x3",))),
    (AntiAffinityGroup("g", ("t/a", "t/b")),),
)
SETTINGS = PolicySettings(placement=RULES)


def state(**held: str) -> ClusterState:
    """Brokers p1, p2, x1, x2, x3; `alpha_a="p1 x1"`: two bundles of alpha/a and who has them."""
    made = ClusterState()
    for name in ("p1", "p2", "x1", "x2", "x3"):
        session = Session(name, 1, "n", 1)
        made.brokers[name] = Broker(name, session)
        made.sessions[session] = 1
    for space, owners in held.items():
        names = owners.split()
        for bundle, owner in zip(initial_bundles(space.replace("_", "/"), len(names)), names, strict=True):
            made.put(Ownership(bundle, State.OWNED, 1, by=made.brokers[owner].session))
    return made


def move(made: ClusterState, space: str, number: int, target: str, **more: object) -> Decision:
    bundle = initial_bundles(space, made.in_namespace(space) or len(_of(made, space)))[number]
    source = made.bundles[str(bundle)].by
    assert source is not None
    kinds = DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN
    return replace(Decision("d", *kinds, str(bundle), source.broker, target), **more)  # type: ignore[arg-type]


def _of(made: ClusterState, space: str) -> list[str]:
    return [name for name in made.bundles if name.startswith(space + "/")]


def result(*decisions: Decision, scores: tuple[dict[str, object], ...] = ()) -> RoundResult:
    return RoundResult("r", 0, 0, "steady", decisions, scores, {}, "h")


def test_a_move_that_isolation_forbids_breaks_i7() -> None:
    made = state(alpha_a="p1 p1", t_c="x1 x1")
    check_placement(result(move(made, "alpha/a", 0, "p2"), move(made, "t/c", 0, "x2")), made, SETTINGS)
    for wrong in (move(made, "alpha/a", 0, "x1"), move(made, "t/c", 0, "p2")):
        with pytest.raises(InvariantBroken, match="which isolation forbids"):
            check_placement(result(wrong), made, SETTINGS)


def test_a_move_that_makes_the_spread_of_a_group_worse_breaks_i7() -> None:
    made = state(t_a="x1 x1", t_b="x3 x3")
    check_placement(result(move(made, "t/a", 0, "x2")), made, SETTINGS)
    with pytest.raises(InvariantBroken, match="closer to others of its group"):
        check_placement(result(move(made, "t/a", 0, "x3")), made, SETTINGS)
    with pytest.raises(InvariantBroken, match="closer to others of its group"):  # the second one, after the first
        check_placement(result(move(made, "t/a", 0, "x2"), move(made, "t/a", 1, "x2")), made, SETTINGS)


def test_a_move_over_the_cap_on_bundles_breaks_i7() -> None:
    made = state(t_c="x1 x1", t_d="x2")
    capped = replace(SETTINGS, caps=BrokerCaps(max_bundles=2))
    check_placement(result(move(made, "t/c", 0, "x2")), made, capped)
    with pytest.raises(InvariantBroken, match="holds 2 of 2"):
        check_placement(result(move(made, "t/c", 0, "x2"), move(made, "t/c", 1, "x2")), made, capped)


def test_what_is_misplaced_and_uneven_is_counted() -> None:
    made = state(alpha_a="p1 x1", t_c="p2 x1 x2", t_a="x1 x2 x1", t_b="x3")
    assert count_misplaced(made, SETTINGS) == 2
    assert domain_gap(made, SETTINGS) == 3  # r1 3, r2 1; the brokers that no domain names 0
    assert (count_misplaced(made, PolicySettings()), domain_gap(made, PolicySettings())) == (0, 0)


def test_what_comes_home_may_make_its_home_the_fullest() -> None:
    made = state(alpha_a="x1")
    scores = ({"broker": "x1", "score": 0.3}, {"broker": "p1", "score": 0.2})
    home = move(made, "alpha/a", 0, "p1", before={"x1": 0.3, "p1": 0.2}, after={"x1": 0.0, "p1": 0.5})
    with pytest.raises(InvariantBroken, match="the worst was"):
        check_round(result(home, scores=scores), made, 8)
    check_round(result(replace(home, reason=Reason.MISPLACED), scores=scores), made, 8)


@pytest.mark.parametrize("reason", [Reason.OVERRIDDEN, Reason.MISPLACED])
def test_what_is_asked_for_may_raise_the_worst_and_nothing_else_beyond_it(reason: Reason) -> None:
    made = state(alpha_a="x1 x2")
    scores = ({"broker": "x1", "score": 0.3}, {"broker": "x2", "score": 0.3}, {"broker": "p1", "score": 0.2})
    before, after = {"x1": 0.3, "p1": 0.2}, {"x1": 0.0, "p1": 0.5}
    asked = replace(move(made, "alpha/a", 0, "p1", before=before, after=after), reason=reason)
    below = move(made, "alpha/a", 1, "x1", before={"x2": 0.3, "x1": 0.0}, after={"x2": 0.1, "x1": 0.2})
    check_round(result(asked, below, scores=scores), made, 8)
    on_top = move(made, "alpha/a", 1, "p1", before={"x2": 0.3, "p1": 0.5}, after={"x2": 0.1, "p1": 0.7})
    with pytest.raises(InvariantBroken, match=r"leaves p1 at 0\.7, the worst was at 0\.5 before"):
        check_round(result(asked, on_top, scores=scores), made, 8)


def test_a_strategy_that_does_not_see_what_overrides_move_breaks_i7() -> None:
    made = state(alpha_a="x1 x2 x2")
    scores = ({"broker": "x1", "score": 0.6}, {"broker": "x2", "score": 0.6}, {"broker": "p1", "score": 0.2})
    asked = replace(
        move(made, "alpha/a", 0, "p1", before={"x1": 0.6, "p1": 0.2}, after={"x1": 0.3, "p1": 0.5}),
        reason=Reason.OVERRIDDEN,
    )
    seen = move(made, "alpha/a", 1, "p1", before={"x2": 0.6, "p1": 0.5}, after={"x2": 0.5, "p1": 0.6})
    check_round(replace(result(asked, seen, scores=scores), strategy="headroom"), made, 8)
    unseen = move(made, "alpha/a", 1, "p1", before={"x2": 0.6, "p1": 0.2}, after={"x2": 0.5, "p1": 0.3})
    with pytest.raises(InvariantBroken, match=r"reckons with p1 at 0\.2, overrides leave it at 0\.5"):
        check_round(replace(result(asked, unseen, scores=scores), strategy="headroom"), made, 8)
    check_round(result(asked, unseen, scores=scores), made, 8)  # `steady` has estimates of its own


def test_overrides_have_a_limit_of_their_own_beside_the_budget() -> None:
    made = state(alpha_a=" ".join(["x1"] * 12))
    asked = [replace(move(made, "alpha/a", at, "p1"), reason=Reason.OVERRIDDEN) for at in range(11)]
    check_round(result(*asked[:10], move(made, "alpha/a", 11, "p1")), made, 1)
    with pytest.raises(InvariantBroken, match="moves 11 bundles by overrides, at most 10"):
        check_round(result(*asked), made, 20)
    with pytest.raises(InvariantBroken, match="moves 2 bundles, its budget is 1"):
        check_round(result(asked[0], move(made, "alpha/a", 10, "p1"), move(made, "alpha/a", 11, "p1")), made, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("isolation namespaces=t/.* primary=b1", "f:1: isolation needs one word that names the policy"),
        ("isolation vip primary=b1", "f:1: isolation policy vip: namespaces is empty"),
        ("isolation vip namespaces=t/.* primary=b[", "f:1: isolation policy vip: 'b[' is no regular expression"),
        ("isolation vip namespaces=t/.* brokers=b1", "f:1: unknown argument 'brokers' of isolation"),
        (
            "failure_domain r1 brokers=b1\nfailure_domain r2 brokers=b1",
            "f:2: broker b1 is in failure domain r1 and in r2",
        ),
        ("anti_affinity g namespaces=t", "f:1: anti-affinity group g: 't' is no namespace"),
    ],
)
def test_rules_that_are_none_are_refused_with_their_place(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run_file(text, "f")
    assert str(caught.value).startswith(told)
