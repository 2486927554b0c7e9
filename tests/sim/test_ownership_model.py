"""The model of the ownership protocol finds every planted bug, and nothing without one, within small bounds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controller.agent.handover.actions import Outcome
from controller.control.step import Batch, step
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ownership import TRANSITIONS
from controller.process.paths import ROOT
from controller.sim.model.agent import NAMES_NOBODY, AgentRules, Input, Knows, must_wait
from controller.sim.model.check import check
from controller.sim.model.configuration import BUGS, CONFIGURATIONS, LEFT_OUT, SERVE, SPLIT_UP, Configuration
from controller.sim.model.control import BROKERS, EPOCH, NOW_MS, SEQ, SETTINGS, On, sessions_of
from controller.sim.model.explore import explore
from controller.sim.model.lease import LeaseModel
from controller.sim.model.protocol import OwnershipModel
from controller.sim.model.states import (
    ANSWERS,
    ASSIGNING,
    BY,
    FENCER,
    FREE,
    NOBODY,
    OWNED,
    RELEASING,
    RETIRED,
    SPLITTING,
    TO,
    TRANSFERRING,
    Record,
    View,
)

OF_THE_LEASE = ["lease_from_acknowledgement", "lease_revives", "no_margin", "restart_keeps_silence"]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_breaks_what_it_should(name: str) -> None:
    planted = BUGS[name]
    checked = check(CONFIGURATIONS[planted.configuration], planted.disturbances, name)
    assert checked.breach.startswith(planted.unsafe)
    assert checked.ownership.trace


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_without_a_bug_it_is_safe_and_live(name: str) -> None:
    checked = check(CONFIGURATIONS[name], disturbances=1)
    assert checked.breach == ""
    assert checked.ownership.states > 50


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_states_of_one_normal_form_go_on_alike(name: str) -> None:
    model, dice = OwnershipModel(CONFIGURATIONS[name]), random.Random(17)
    for _ in range(12):
        state = model.start()
        for _ in range(50):
            steps = model.steps(state, coded=False)
            alike = {(step.state, step.cost) for step in model.steps(model.code(state))}
            assert {(model.code(step.state), step.cost) for step in steps} == alike
            if steps:
                state = dice.choice(steps).state


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_core_set_up_anew_for_each_input_does_what_a_lasting_one_does(name: str) -> None:
    configuration, dice = CONFIGURATIONS[name], random.Random(23)
    rules = AgentRules(configuration)
    for _ in range(300):
        knows, epoch = Knows((None,) * len(configuration.bundles), (None,) * len(configuration.bundles)), 1
        lasting = rules.set_up(knows)
        for _ in range(15):
            given = draw_input(dice, configuration, knows, epoch)
            epoch = max(epoch, given.view.epoch)
            anew, kept = rules.react(knows, given), rules.pass_on(lasting, knows, given)
            assert kept.knows == anew.knows, (knows, given)
            assert set(kept.said) <= set(anew.said)  # it repeats an answer after a second only
            knows = anew.knows


def draw_input(dice: random.Random, configuration: Configuration, knows: Knows, epoch: int) -> Input:
    """An input that an agent may get in this state. `epoch`: the newest that it has read of."""
    parent, *children = knows.views if configuration.splits else (None,)
    split = any(children) or (parent is not None and parent.state == RETIRED)
    bundle = dice.choice([0, 1, 2] if split else [0])
    view, work = knows.views[bundle], knows.works[bundle]
    drawn = [Input("repeats")]
    if bundle or not split:  # no entry follows about a bundle that was split
        drawn += [Input("reads", bundle, draw_view(dice, view, epoch))] * 2
    if configuration.splits and view is not None and view.state == SPLITTING and view.role == BY:
        drawn += [Input("reads", 0, View(RETIRED, BY, 0))] * 4
    if work is not None and work.doing:
        outcomes = [Outcome.DONE, Outcome.FAILED if work.doing == SPLIT_UP else Outcome.DONE]
        drawn += [Input("ends", bundle, outcome=outcome) for outcome in outcomes] * 2
        drawn += [Input("ends", bundle, outcome=Outcome.FENCED)] if work.doing == SERVE else []
    elif work is not None and work.serving:
        drawn.append(Input("loses", bundle))
    if view is not None and must_wait(view):
        drawn += [Input("hears", bundle)] * 4
    return dice.choice(drawn)


def draw_view(dice: random.Random, view: View | None, epoch: int) -> View:
    """A record as it may be read after this one: at the same epoch, or with any state at the next."""
    if view is not None and dice.random() < 0.4:
        follow = {
            (ASSIGNING, TO): [view._replace(state=OWNED, role=BY)],
            (TRANSFERRING, TO): [view._replace(state=RELEASING)],
            (TRANSFERRING, BY): [view._replace(state=RELEASING)],
            (RELEASING, TO): [view._replace(state=OWNED, role=BY, released=0, fence=0), view._replace(released=1)],
            (RELEASING, BY): [view._replace(released=1)],
        }
        return dice.choice(follow.get((view.state, view.role), [NAMES_NOBODY]))
    state = dice.choice([FREE, ASSIGNING, OWNED, TRANSFERRING, RELEASING, RELEASING, SPLITTING])
    roles = {FREE: [NOBODY], ASSIGNING: [TO], OWNED: [BY], TRANSFERRING: [BY, TO], SPLITTING: [BY]}
    role = dice.choice(roles.get(state, [BY, TO, TO, FENCER]))
    fence = int(role == TO and state == RELEASING and dice.random() < 0.2)
    return View(state, role, epoch + 1, fence=fence) if role != NOBODY else NAMES_NOBODY


def test_the_whole_step_begins_with_a_change_that_the_model_knows() -> None:
    rules = explored("one-bundle").control
    asked = [(key, changes) for key, changes in rules.known.items() if key[-1].name == On.ANSWER and changes]
    for (bundle, state, released, fence, seats, event), changes in asked:
        record = Record(state, EPOCH, released, fence)
        ctx = rules.context(bundle, record, seats)
        current, older = sessions_of(BROKERS[event.broker], seats[event.broker].older)
        where = rules.ownership(bundle, record, seats).bundle
        said = BrokerEvent(ANSWERS[event.answer], older if event.older else current, SEQ, where, EPOCH)
        result = step(ctx.state, ctx.watch, Batch([said], {}, 1, "model", 0, read_to_end=False), NOW_MS, SETTINGS)
        first = next(entry.ownership() for entry in result.entries if entry.kind is Kind.OWNERSHIP)
        assert [first.state, first.epoch, first.by, first.to, first.released, first.fence] in [
            [after.state, after.epoch, after.by, after.to, after.released, after.fence]
            for after in (
                rules.ownership(bundle, Record(c.state, EPOCH + c.burnt, c.released, c.fence), c.seats) for c in changes
            )
        ]
    assert len({key[-1].answer for key, _ in asked}) == 5  # all but `split_done`


def explored(name: str) -> OwnershipModel:
    """The model, explored with two disturbances."""
    model = OwnershipModel(replace(CONFIGURATIONS[name], disturbances=2))
    explore(model)
    return model


def test_two_disturbances_take_every_transition_and_every_kind_of_input() -> None:
    checked = [check(CONFIGURATIONS[name], disturbances=2) for name in ("one-bundle", "split")]
    assert [one.breach for one in checked] == ["", ""]
    table = {(before, after) for before, states in TRANSITIONS.items() for after in states}
    assert table - checked[0].taken - checked[1].taken == set()
    events = {value for name, value in vars(On).items() if name.isupper()} - {On.ANSWER, On.GOODBYE}
    inputs = {"reads", "skips", "hears", "loses", "repeats", "ends done", "ends fenced", "ends failed"}
    assert {*events, *ANSWERS, *inputs} - checked[0].inputs - checked[1].inputs == set()


def test_the_lease_expires_for_its_agent_first_and_only_a_bug_changes_that() -> None:
    assert explore(LeaseModel()).breach == ""
    for name in OF_THE_LEASE:
        found = explore(LeaseModel(name))
        assert found.breach, name
        assert found.trace[-1].startswith("the controller ends the lease") or name == "lease_revives"


def test_a_trace_is_short_and_says_who_does_what() -> None:
    checked = check(CONFIGURATIONS["one-bundle"], 1, "unload_frees")
    assert checked.breach == "two servers of bundle 0, at epochs 1 and 3"
    assert checked.ownership.trace == [
        "the controller is commanded to unload the bundle → free, epoch 2",
        "the controller places the bundle → assigning, epoch 3, to B",
        "B reads `assigning` to itself, epoch 3",
        "B serves at epoch 3",
    ]


def test_the_page_names_what_the_model_leaves_out() -> None:
    page = " ".join((ROOT / "docs" / "ownership.md").read_text(encoding="utf-8").split())
    assert [text for text in LEFT_OUT if text not in page] == []
