"""Strategies of other packages: found by name, imported when named, refused in one line when they are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.published.clusters import cluster, moves
from controller.backtest.point.grid import GridPoint
from controller.domain.errors import ConfigError
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.round import as_commanded, replay_round
from controller.policy.strategies import STRATEGIES, Traits, get, has, names, reads, traits_of
from controller.process.plugins import installed_strategies, use_installed_strategies
from tests.plugins import GENTLE, install, write_package

PLAIN = """
class Mine:
    name = "mine"
    rules = 1

    def decide(self, snapshot, memory, settings):
        raise NotImplementedError

class Nameless(Mine):
    name = ""

class Ruleless(Mine):
    rules = "1"

class Undeciding(Mine):
    decide = None

class Misled(Mine):
    traits = {"budgeted": True}

class Costly(Mine):
    def __init__(self):
        raise RuntimeError("no licence")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path; what was installed there is forgotten afterwards."""
    before, modules = set(STRATEGIES), set(sys.modules)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    installed_strategies.cache_clear()
    use_installed_strategies()
    yield folder
    installed_strategies.cache_clear()
    for name in set(STRATEGIES) - before:
        del STRATEGIES[name]
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def offered(site: Path) -> Callable[[str], None]:
    """Offers that class of PLAIN as strategy `mine`."""
    return lambda found: write_package(site, "acme", {"mine": found}, PLAIN)


def test_a_strategy_of_another_package_decides_and_its_round_is_decided_again(site: Path) -> None:
    install(GENTLE, site)
    built = cluster(strategy="gentle").broker("a", cpu=80).bundle("a", cpu=50).bundle("a", cpu=30).broker("b")
    first, second = built.round(), built.later().round()
    assert [(move.source, move.target, move.strategy) for move in moves(first)] == [("a", "b", "gentle")]
    assert moves(second) == [], "it rests after a move"
    for result in (first, second):
        assert result.inputs["rules"] == 1
        assert replay_round(result.inputs) == result.plan_hash


def test_a_package_is_imported_when_its_strategy_is_named_and_not_before(
    site: Path, offered: Callable[[str], None]
) -> None:
    offered("Mine")
    with pytest.raises(ConfigError, match=r"strategy 'other' is none of .*, mine, "):
        get("other")
    assert "mine" in names()
    assert "acme" not in sys.modules
    assert get("mine") is get("mine")
    assert "acme" in sys.modules


def test_a_strategy_that_says_nothing_about_itself_is_budgeted_and_may_read_any_setting(
    offered: Callable[[str], None],
) -> None:
    offered("Mine")
    assert traits_of(get("mine")) == Traits(budgeted=True, knobs=None, from_pulsar=False)
    assert all(reads(get("mine"), part) for part in ("steady", "weighted", "pulsar", "shed"))
    point = GridPoint("mine", (("steady.tolerance", 0.1),))
    assert point.effective() == point
    assert not reads(get("headroom"), "steady")


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("Nameless", "is no strategy: its attribute name is ''"),
        ("Ruleless", "is no strategy: rules is '1', not a number from 1"),
        ("Undeciding", "is no strategy: it has no method decide"),
        ("Misled", "is no strategy: traits is {'budgeted': True}, not Traits"),
        ("Costly", r"cannot be loaded \(RuntimeError: no licence\)"),
        ("Absent", r"cannot be loaded \(AttributeError: .*Absent"),
    ],
)
def test_a_broken_one_is_one_error_that_names_package_and_entry_point(
    offered: Callable[[str], None], found: str, fault: str
) -> None:
    offered(found)
    with pytest.raises(
        ConfigError, match=rf"^strategy 'mine' of acme 1\.0 \(entry point mine = acme:{found}\) {fault}"
    ):
        get("mine")
    assert not has("mine")
    assert has("steady")


def test_a_name_that_two_packages_take_is_refused(site: Path) -> None:
    write_package(site, "acme", {"mine": "Mine"}, PLAIN)
    write_package(site, "zenith", {"mine": "Mine"}, PLAIN)
    both = r"acme 1\.0 \(entry point mine = acme:Mine\) and zenith 1\.0 \(entry point mine = zenith:Mine\)"
    with pytest.raises(ConfigError, match=rf"^strategy 'mine' is offered twice, by {both}: uninstall one of them$"):
        names()


@pytest.mark.parametrize("name", ["steady", "first"])
def test_a_name_of_ballasts_own_is_refused(site: Path, name: str) -> None:
    write_package(site, "acme", {name: "Mine"}, PLAIN)
    with pytest.raises(ConfigError, match=rf"strategy '{name}' of acme 1\.0 .* has the name of Ballast's own"):
        names()


def test_what_was_commanded_and_is_broken_now_counts_as_not_chosen(offered: Callable[[str], None]) -> None:
    offered("Costly")
    state = ClusterState()
    state.strategy, state.challengers = "mine", ("mine", "headroom", "gone")
    chosen = as_commanded(replace(PolicySettings(), strategy="steady"), state)
    assert (chosen.strategy, chosen.challengers) == ("steady", ("headroom",))
