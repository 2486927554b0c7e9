"""The language of scenario files: what it understands, and what it says about mistakes."""

from __future__ import annotations

import pytest

from controller.domain.errors import ConfigError
from controller.domain.settings.policy import PolicySettings
from controller.sim.scenario.file import run_file
from controller.sim.scenario.orders import value_of
from controller.sim.scenario.parser import parse, with_results
from controller.sim.scenario.values import duration_ms, set_policy

TINY = """\
# two brokers
gen_cluster brokers=2 cores=4 place=packed
gen_load bundles=8 tenants=2 skew=equal utilisation=0.3   # a comment
set strategy=headroom
assertion type=moves total==0
eval duration=3m seed=1
"""


def test_results_are_read_with_the_command_above_them() -> None:
    commands = parse("a x=1 word\n\neval\n----\none\n two\n\nb\n----\nlast", "f.txt")
    assert [(c.name, c.expected) for c in commands] == [("a", None), ("eval", "one\n two"), ("b", "last")]
    assert (commands[0].words, [(a.key, a.op, a.value) for a in commands[0].arguments]) == (
        ("word",),
        [("x", "=", "1")],
    )
    assert commands[1].place == "f.txt:3"


def test_comparisons_keep_their_operator() -> None:
    (command,) = parse("assertion type=moves balance<=3 drain>0 total==4 split<2 failover>=1", "f")
    assert [(a.key, a.op) for a in command.arguments] == [
        ("type", "="), ("balance", "<="), ("drain", ">"), ("total", "=="), ("split", "<"), ("failover", ">="),
    ]  # fmt: skip


def test_rewriting_replaces_adds_and_removes_results_and_nothing_else() -> None:
    text = "# top\na\n----\nold\nolder\n\nb\nc\n----\ngone\n"
    commands = parse(text, "f")
    assert with_results(text, commands, ["new", "added", None]) == "# top\na\n----\nnew\n\nb\n----\nadded\n\nc\n"


def test_a_rewritten_file_says_what_it_prints_and_stays_as_it_is() -> None:
    first = run_file(TINY, "tiny.txt")
    assert (first.differences, first.failures) == ((), ())
    (told,) = first.unrecorded
    assert told.startswith("tiny.txt:6: eval gives\nstrategy headroom, 3 rounds")
    again = run_file(first.text, "tiny.txt")
    assert (again.differences, again.unrecorded) == ((), ())
    assert again.text == first.text
    assert first.text.endswith("\nOK\n")


def test_a_result_that_differs_is_told_with_its_place() -> None:
    (difference,) = run_file(TINY + "----\nOK\n", "tiny.txt").differences
    assert difference.startswith("tiny.txt:6: eval gives\nstrategy headroom, 3 rounds")


def test_an_assertion_that_fails_is_printed_and_told() -> None:
    result = run_file(TINY.replace("total==0", "total>=5"), "tiny.txt")
    assert result.failures == ("tiny.txt:6: FAILED: moves total>=5, found 0",)
    assert "\nFAILED: moves total>=5, found 0\n" in result.text


def test_assertions_hold_for_the_next_eval_only() -> None:
    result = run_file(TINY.replace("total==0", "total>=5") + "\neval seed=2\n", "tiny.txt")
    assert len(result.failures) == 1


def test_another_strategy_takes_the_place_of_the_files() -> None:
    outcome = run_file(TINY.replace("set strategy=headroom\n", ""), "tiny.txt", strategy="threshold").outcomes[0]
    assert outcome.figures.strategy == "threshold"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("frobnicate x=1", "unknown command 'frobnicate'; there are gen_cluster, "),
        ("\ngen_cluster broker=3", "f:2: unknown argument 'broker' of gen_cluster; there are brokers, cores, "),
        ("gen_cluster brokers<=3", "brokers<=3: only an assertion compares, write ="),
        ("gen_cluster brokers=many", "brokers=many: 'many' is no whole number"),
        ("gen_cluster brokers=0", "0 brokers with"),
        ("gen_cluster place=there", "place 'there' is none of spread, random, packed"),
        ("gen_cluster twelve", "gen_cluster takes no 'twelve', only key=value"),
        ("gen_load skew=steep", "skew='steep' is none of equal, "),
        ("gen_load tenants=5 bundles=4", "5 tenants of 4 bundles"),
        ("shape diurnal amplitude=much", "amplitude=much: 'much' is no number"),
        ("shape tidal", "shape tidal: one of diurnal, periodic, "),
        ("shape", "shape nothing: one of diurnal"),
        ("shape spike by=topic\neval duration=3m", "by='topic' is neither bundle nor tenant"),
        ("reports every=7s", "reports every 7000 ms: a divisor of 60000 ms"),
        ("reports loss=1", "noise=0 loss=1: give noise >= 0 and 0 <= loss < 1"),
        ("costs cpu=3", "unknown argument 'cpu' of costs"),
        ("set tolerence=0.1", "tolerence is no setting of a policy"),
        ("set enabled=false", "enabled is in shed and split: write one of them before a dot"),
        ("set strategy=best", "strategy 'best' is none of "),
        ("set max_moves_per_round=x", "max_moves_per_round=x: 'x' is no whole number"),
        ("fault broker=b1 melt at=3m", "fault melt: one of crash, leave, "),
        ("fault broker=b1 crash at=10", "at=10: '10' is no duration"),
        ("fault crash at=1m", "all but restart name a broker"),
        ("fault cut broker=b1 at=1m", "fault cut needs for="),
        ("fault crash broker=b1 at=61m\neval", "f:1: at=61m is after the end of the run, which takes 60m: give eval a"),
        ("\noperator drain broker=b1 at=21m\neval duration=20m", "f:2: at=21m is after the end of the run"),
        ("shape spike at=90s\neval duration=1m", "f:1: at=1.5m is after the end of the run, which takes 1m"),
        ("fault crash broker=b99 at=1m\neval", "f:1: fault crash of 'b99', which is none of "),
        ("fault join broker=b1 at=1m\neval", "['b1'] are there from the start and cannot join"),
        ("operator dance at=1m", "operator dance: one of adopt, approve, create_namespace, "),
        (
            "operator drain broker=b99\neval duration=3m",
            "f:2: an operator's command was rejected: drain {'broker': 'b99'}",
        ),
        ("assertion type=speed x<1", "assertion type=speed: one of balance, "),
        ("assertion type=moves", "an assertion of type moves compares one or more of "),
        ("assertion type=moves speed<1", "unknown argument 'speed' of an assertion of type moves"),
        ("assertion type=moves total=1", "total=1: compare with <=, <, >=, >, =="),
        ("assertion type=steady quiet>=10", "quiet>=10: '10' is no duration"),
        ("eval duration=90s", "each must be a multiple of the next"),
        ("eval seed=1 seed=2", "seed is given twice"),
        ("eval seed=", "seed has no value"),
        ("plot", "plot stands before the first eval"),
        ("x=1", "'x=1' stands where a command's name is expected"),
        ("----\nOK", "f:1: a result without a command in the line above it"),
    ],
)
def test_mistakes_name_file_line_and_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        run_file(text, "f")
    assert str(error.value).startswith("f:")
    assert told in str(error.value)


def test_absurd_loads_are_warned_of_and_carried_out() -> None:
    text = run_file(TINY.replace("utilisation=0.3", "utilisation=1.2"), "tiny.txt").text
    assert "WARNING: load is 120% of all cores: no placement can carry it" in text


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("90s", 90_000), ("10m", 600_000), ("1.5h", 5_400_000), ("0", 0)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_operators_commands_reach_the_step() -> None:
    text = TINY.replace("total==0", "drain==4").replace("eval", "operator drain broker=b1 at=1m\neval")
    result = run_file(text, "tiny.txt")
    assert result.failures == ()
    assert result.outcomes[0].figures.brokers == 1
    assert value_of("[a,b]") == ["a", "b"]
    assert [value_of(text) for text in ("true", "12", "t/ns", "-")] == [True, 12, "t/ns", "-"]


def test_settings_are_found_by_name() -> None:
    policy = PolicySettings()
    assert set_policy(policy, "tolerance", "0.1").steady.tolerance == 0.1
    assert set_policy(policy, "split.enabled", "false").split.enabled is False
    assert set_policy(policy, "grace_period", "10m").shed.grace_period_ms == 600_000
    assert set_policy(policy, "max_msg_rate_per_s", "none").split.max_msg_rate_per_s is None
    assert set_policy(policy, "challengers", "steady,threshold").challengers == ("steady", "threshold")
