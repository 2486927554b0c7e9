"""Rounds that earlier versions have stored: each comes to its plan again, or was decided by other rules.

A failure here says that a strategy decides differently from before: raise its `rules` by one
(docs/strategies.md#rules-have-a-number), and nothing else, unless it was not meant to.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, loads
from controller.domain.decision import FIRST_RULES
from controller.domain.errors import OtherRules
from controller.policy.replay import Verdict, judge
from controller.policy.round import replay_round, rules_of, run_with_challengers
from controller.policy.strategies import STRATEGIES
from tests.stored_state import VERSIONS, folder_of
from tests.stored_state.archive import ROUNDS, read_rounds

OF_ALL = (
    "skip 200_hit_count", "split 112_split_msg_rate", "mode shadow", "skip 410_broker_gone", "skip 400_no_load_data",
    "transfer 109_overridden", "skip 305_broker_drained",
    *(f"override {kind}" for kind in ("pin", "avoid", "freeze", "exclude_namespace")),
    *(f"rule {rule}" for rule in ("isolation", "failure_domains", "anti_affinity", "max_bundles")),
    "rule prefer_later_versions",
)  # fmt: skip
Row = dict[str, Any]


@pytest.fixture(scope="module")
def rounds() -> dict[str, list[Row]]:
    return {version: list(read_rounds(folder_of(version) / ROUNDS)) for version in VERSIONS}


def test_the_rounds_show_all_that_rounds_do(rounds: dict[str, list[Row]]) -> None:
    for version, rows in rounds.items():
        seen = defaultdict(Counter)
        for row in rows:
            seen[row["strategy"]].update(row["shows"])
        assert len(rows) >= 200, version
        assert set(seen) >= {
            "steady",
            "headroom",
            "weighted",
            "overload",
            "threshold",
            "uniform",
            "average",
            "transfer",
        }
        for strategy, shows in seen.items():
            never = [what for what in OF_ALL if not shows[what] and (strategy, what) not in _OTHERWISE]
            assert not never, f"{version}: {strategy} never shows {never}"
        assert seen["steady"]["exchange"]
        assert seen["steady"]["split 115_split_to_balance"]
        assert sum(shows["transfer 116_misplaced"] for shows in seen.values())


# Pulsar's methods that count no hits, and the one whose hits are the cluster's
_OTHERWISE = {(name, "skip 200_hit_count") for name in ("overload", "threshold", "uniform", "simple")}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_stored_round_comes_to_its_plan_or_was_decided_by_other_rules(
    rounds: dict[str, list[Row]], version: str, strategy: str
) -> None:
    wrong, verdicts = [], Counter[Verdict]()
    for row in rounds[version]:
        if row["strategy"] == strategy:
            found = judge(json.loads(row["inputs_json"]), row["plan_hash"])
            verdicts[found.verdict] += 1
            if found.verdict not in (Verdict.EQUAL, Verdict.OTHER_RULES):
                wrong.append(f"{row['story']} {row['round_id']}: {found.text} {row['shows']}")
    assert not wrong, f"{strategy} decides {len(wrong)} of {verdicts.total()} rounds differently, the first: {wrong[0]}"


def test_a_round_of_another_number_is_neither_equal_nor_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    result = loads(90, 20, 10).second_round()
    stored = json.loads(json.dumps(result.inputs))
    assert judge(stored, result.plan_hash).verdict is Verdict.EQUAL
    monkeypatch.setattr(type(STRATEGIES["headroom"]), "rules", 7)
    found = judge(stored, result.plan_hash)
    rules = result.inputs["rules"]
    assert (found.verdict, found.rules, found.text) == (Verdict.OTHER_RULES, rules, f"decided by rules {rules}")
    with pytest.raises(OtherRules, match=f"decided by rules {rules} of headroom, this version decides by rules 7"):
        replay_round(stored)
    newer = loads(90, 20, 10).second_round()
    assert (newer.inputs["rules"], judge(newer.inputs, newer.plan_hash).verdict) == (7, Verdict.EQUAL)


def test_a_round_without_a_number_was_decided_by_the_first_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {k: v for k, v in loads(90, 20, 10).second_round().inputs.items() if k != "rules"}
    assert rules_of(stored) == FIRST_RULES == 1
    monkeypatch.setattr(type(STRATEGIES["headroom"]), "rules", 1)
    assert replay_round(stored)
    monkeypatch.setattr(type(STRATEGIES["headroom"]), "rules", 2)
    assert judge(stored, "x").text == "decided by rules 1"


def test_a_challenger_has_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    built: ClusterBuilder = loads(90, 20, 10)
    built.settings = replace(built.settings, challengers=("steady", "threshold"))
    monkeypatch.setattr(type(STRATEGIES["steady"]), "rules", 5)
    results = run_with_challengers(built.inputs())
    numbers = {name: STRATEGIES[name].rules for name in ("headroom", "steady", "threshold")}
    assert {r.strategy: r.inputs["rules"] for r in results} == numbers
    assert numbers["steady"] == 5
    monkeypatch.setattr(type(STRATEGIES["steady"]), "rules", 6)
    verdicts = {r.strategy: judge(r.inputs, r.plan_hash).verdict for r in results}
    assert verdicts == {"headroom": Verdict.EQUAL, "steady": Verdict.OTHER_RULES, "threshold": Verdict.EQUAL}


def test_another_plan_under_the_same_number_is_told() -> None:
    result = loads(90, 20, 10).second_round()
    found = judge(result.inputs, "0" * 64)
    assert found.verdict is Verdict.DIFFERENT
    assert "DIFFERENT: stored 000000000000…" in found.text


def test_what_this_version_cannot_read_is_told() -> None:
    stored = json.loads(json.dumps(loads(90, 20, 10).second_round().inputs))
    stored["frame"]["row_columns"].append("tide")
    assert judge(stored, "x").verdict is Verdict.UNREADABLE
    stored = json.loads(json.dumps(loads(90, 20, 10).second_round().inputs))
    stored["settings"]["tide"] = 1
    assert judge(stored, "x").verdict is Verdict.UNREADABLE
    assert judge({**stored, "strategy": "gone"}, "x").verdict is Verdict.UNREADABLE
