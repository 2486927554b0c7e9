"""What is printed of an advice stays readable on a cluster of a thousand brokers."""

from __future__ import annotations

from typing import Any

import pytest

from controller.backtest.advise.advice import Advice
from controller.cli.advice_text import SHOWN_BROKERS, print_advice

BALANCED, WAITING = "100_balanced", "200_hit_count"


def row(number: int, score: float | None, reason: str = BALANCED) -> dict[str, Any]:
    words = "its load is not known" if score is None else f"not hot: at {100 * score:.1f} % against 50.0 % on average"
    return {
        "broker": f"b{number:04}:8080", "score": score, "mean": 0.5, "reason": reason, "words": words, "bundles": 100,
        "msg_rate": 16_000.0, "throughput": 1.6e7, "utilisations": {"cpu": score},
    }  # fmt: skip


def move(source: int, target: int) -> dict[str, Any]:
    return {
        "id": "1-0000", "kind": "transfer", "bundle": "t/n/0x00000000_0x10000000", "source": f"b{source:04}:8080",
        "target": f"b{target:04}:8080", "reason": "400_overloaded", "words": "over its limit", "before": {},
        "after": {}, "evidence": {}, "command": None,
    }  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], brokers: list[dict[str, Any]], *moves: dict[str, Any]) -> str:
    print_advice(Advice("steady", 0, 1, brokers, moves, (), ()), ["a note"])
    return capsys.readouterr().out


def test_a_thousand_brokers_are_not_listed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = [row(n, 0.3 + n / 10_000, BALANCED if n < 990 else WAITING) for n in range(999)]
    out = printed(capsys, [*brokers, row(999, None)], move(998, 3))
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("b0")]
    most_loaded = [f"b{n:04}:8080" for n in range(999 - SHOWN_BROKERS + 1, 999)]
    assert listed == ["b0003:8080", *most_loaded], "those that the plan concerns, then the most loaded, by name"
    assert f"{1_000 - SHOWN_BROKERS} more brokers; --limit shows them" in out
    assert out.splitlines()[-1] == "- a note"


def test_why_a_thousand_brokers_stay_is_said_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, [row(n, 0.3 + n / 10_000, BALANCED if n < 990 else WAITING) for n in range(1_000)])
    (why,) = [line for line in " ".join(out.split()).split(" - ") if "nothing to move or split: " in line]
    said = why.partition("nothing to move or split: ")[2]
    assert said.startswith("b0000:8080, b0001:8080, b0002:8080, b0003:8080, b0004:8080 and 985 more: 100_balanced, ")
    assert "; b0990:8080, b0991:8080, b0992:8080, b0993:8080, b0994:8080 and 5 more: 200_hit_count, " in said


def test_a_few_brokers_are_all_listed_and_why_they_stay_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(printed(capsys, [row(n, 0.45 + n / 100) for n in range(3)]).split())
    assert out.count("not hot: at 46.0 % against 50.0 % on average") == 1, "the table has the figures of each"
    assert "nothing to move or split: of every broker, 100_balanced, " in out
    assert "--limit" not in out
