"""`ballast pulsar advise`: what it says of a live cluster and of a recording is what a round decides."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.backtest.advise.advice import advice_of
from controller.backtest.advise.rounds import shadow_rounds
from controller.backtest.recording.input import read_input
from controller.backtest.recording.prepared import round_ends
from controller.brokers.pulsar.admin_commands import split_command, unload_command
from controller.domain.decision import DecisionKind
from controller.domain.ids import Bundle
from controller.domain.load import MAKE_LOAD_KNOWN
from controller.domain.settings.policy import PolicySettings, ResourceWeights
from controller.loads.recorded import Overrides
from controller.process.paths import ROOT
from tests.unit.brokers.pulsar.stand_in import StandIn, say, status
from tests.unit.brokers.pulsar.test_pulsar_recording import ballast, cluster, lines_of, record

__all__ = ["cluster"]
REAL = ROOT / "tests" / "data" / "real" / "pulsar_load_reports.jsonl"
EIGHTHS = [f"shop/orders/0x{at:x}0000000_0x{at + 1:x}0000000" for at in range(8)]
NO_CPU = ("--set", "shedding.cpu_weight=0", "--set", "pulsar_cluster.nic_gbps=0.01")


def advise(cluster: StandIn, *words: str) -> int:
    return ballast("pulsar", "advise", "--service-url", cluster.brokers[0].url, "--every", "300ms", *NO_CPU, *words)


def test_an_imbalance_shows_in_the_first_round_with_the_command_that_ends_it(
    cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.brokers[0].held = dict.fromkeys(EIGHTHS, 100.0)
    assert advise(cluster, "--json") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["cluster"], found["manager"], found["rounds"]) == ("spike", "modular", 1)
    assert found["moves"]
    held = {"broker-1:8080": 8.0, "broker-2:8080": 1.0, "broker-3:8080": 1.0}
    for move in found["moves"]:
        words = shlex.split(move["command"])
        assert words[:3] == ["pulsar-admin", "namespaces", "unload"]
        assert f"{words[-1]}/{words[words.index('--bundle') + 1]}" == move["bundle"]
        assert words[words.index("--destinationBroker") + 1] == move["target"]
        held[move["source"]], held[move["target"]] = held[move["source"]] - 1, held[move["target"]] + 1
    assert max(held.values()) - min(held.values()) <= 1.0
    assert "up to" in said.err
    assert "loadBalancerSheddingEnabled=true" in " ".join(found["notes"])


def test_a_balanced_cluster_says_why_there_is_nothing_to_do(
    cluster: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert advise(cluster, "--rounds", "2") == 0
    out = capsys.readouterr().out
    assert "nothing to move or split: of every broker, 100_balanced" in out
    assert "isolation policies" in out


def test_a_broker_without_figures_is_named_and_left_out(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.brokers[1].answers["/load-report"] = status(500, "out of order")
    cluster.brokers[0].held = dict.fromkeys(EIGHTHS, 100.0)
    assert advise(cluster, "--json", "--rounds", "1") == 0
    found = json.loads(capsys.readouterr().out)
    assert {move["target"] for move in found["moves"]} == {"broker-3:8080"}
    (note,) = [note for note in found["notes"] if note.startswith("broker-2:8080 is left out")]
    assert "out of order" in note


def test_nothing_known_of_any_load_is_said(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert advise(cluster, "--rounds", "1", "--set", "pulsar_cluster.nic_gbps=", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["reason"] for row in found["brokers"]} == {"400_no_load_data"}
    assert any("nic_gbps" in note for note in found["notes"])


def test_without_cpu_no_broker_has_a_level_and_the_next_step_is_that_of_a_backtest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in REAL.read_text().splitlines()]
    for row in rows:
        row.get("report", {}).pop("cpu", None)
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps({**row, "process_cpu": {}}) for row in rows))
    assert ballast("pulsar", "advise", str(tmp_path / "r.jsonl")) == 0
    out = capsys.readouterr().out
    assert re.search(r"^127.0.0.1:18081 +unknown +- ", out, re.MULTILINE)
    assert f"the load of no broker is known: {MAKE_LOAD_KNOWN}\n" in out


def test_an_address_in_the_place_of_a_recording_gets_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("pulsar", "advise", "http://broker:8080") == 2
    assert "http://broker:8080 is an address, not a recording: write --service-url http://" in capsys.readouterr().err
    assert ballast("pulsar", "advise", "broker:8080") == 2
    assert "'broker:8080' does not exist: name a recording, or a cluster with --s" in capsys.readouterr().err


def test_a_cluster_that_cannot_be_reached_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("pulsar", "advise", "--service-url", "http://127.0.0.1:1") == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "unreachable" in err
    assert ballast("pulsar", "advise") == 2
    assert ballast("pulsar", "advise", str(REAL), "--service-url", "http://127.0.0.1:1") == 2


def test_a_recording_of_ones_own_is_advised_on(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.brokers[0].held = dict.fromkeys(EIGHTHS, 100.0)
    out = tmp_path / "r.jsonl"
    assert record(cluster, out, "--hash-names") == 0
    capsys.readouterr()
    assert ballast("pulsar", "advise", str(out), *NO_CPU, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["moves"]
    assert {move["command"] for move in found["moves"]} == {None}
    assert any("hashed" in note for note in found["notes"])


def test_the_recording_of_a_real_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("pulsar", "advise", str(REAL), *NO_CPU) == 0
    out = capsys.readouterr().out
    assert "pulsar-admin namespaces unload --bundle" in out
    assert "127.0.0.1:18083" in out
    configuration = "defaults; profile local; --set shedding.cpu_weight=0.0, pulsar_cluster.nic_gbps=0.01"
    assert out.endswith(f"configuration: {configuration}\n")


def test_rounds_see_the_averages_and_owners_of_their_window(tmp_path: Path) -> None:
    found = read_input(str(REAL), None, Overrides(unknown_nic_gbps=0.04), tmp_path / "q")
    settings = PolicySettings(weights=ResourceWeights(cpu=0.0))
    rounds = list(shadow_rounds(found.recording, settings, 20_000, 20_000, None))
    assert len(rounds) == len(round_ends(found.recording.at_ms, 20_000)) == 16
    last = rounds[-1]
    steps = slice(len(found.recording.at_ms) - 4, None)
    assert len(last.bundles["bundle"]) == len(found.recording.bundles) == 9
    for at, broker in enumerate(last.brokers["broker"].tolist()):
        column = found.recording.brokers.index(broker)
        mean = np.nanmean(found.recording.usage[steps, column, 0])
        assert last.brokers["cpu_usage"][at] == pytest.approx(mean, rel=0.2)
    assert any(decision.kind is not DecisionKind.SKIP for decision in rounds[5].result.decisions)
    assert advice_of(rounds[:6], {}).earlier, "earlier rounds would have acted as well"


def test_a_bundle_that_pulsar_has_just_moved_is_left_in_peace(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    cluster.brokers[0].held = dict.fromkeys(EIGHTHS[:4], 100.0)
    cluster.brokers[1].held = dict.fromkeys(EIGHTHS[4:], 100.0)
    record(cluster, out)
    lines = lines_of(out)
    start = lines[0]["ts"]
    moved = [shift(line, 60 * at, EIGHTHS) for at in range(3) for line in lines]
    for line in moved:
        take_all(line, EIGHTHS, at_once=line["ts"] > start + 100)
    out.write_text("".join(json.dumps(line) + "\n" for line in moved))
    capsys.readouterr()
    assert ballast("pulsar", "advise", str(out), *NO_CPU, "--json", "--set", "rounds.max_report_age_s=60") == 0
    found = json.loads(capsys.readouterr().out)
    assert {move["bundle"] for move in found["moves"]} <= set(EIGHTHS[:4]), "only those that did not move"


def shift(line: dict[str, Any], seconds: float, names: list[str]) -> dict[str, Any]:
    return {**json.loads(json.dumps(line)), "ts": line["ts"] + seconds}


def take_all(line: dict[str, Any], names: list[str], at_once: bool) -> None:
    """From some time on the first broker owns everything."""
    if not at_once:
        return
    stats = line["report"]["lastStats"]
    if line["broker"] == "broker-1:8080":
        row = next(iter(stats.values()))
        line["report"]["lastStats"] = dict.fromkeys(names, row)
        line["report"] |= {"msgThroughputIn": 8 * row["msgThroughputIn"]}
    else:
        line["report"] |= {"lastStats": {}, "msgThroughputIn": 0.0}


def test_commands_of_pulsar_admin() -> None:
    bundle = Bundle.parse("t/n/0x00000000_0x40000000")
    assert unload_command(bundle, "b-2:8080") == (
        "pulsar-admin namespaces unload --bundle 0x00000000_0x40000000 --destinationBroker b-2:8080 t/n"
    )
    assert unload_command(bundle, None) == "pulsar-admin namespaces unload --bundle 0x00000000_0x40000000 t/n"
    assert split_command(bundle, 5) == (
        "pulsar-admin namespaces split-bundle --bundle 0x00000000_0x40000000 "
        "--split-algorithm-name specified_positions_divide --split-boundaries 5 t/n"
    )
    assert split_command(bundle, None).endswith("--split-algorithm-name range_equally_divide t/n")
    assert unload_command(Bundle("t/$(rm)", 0, 1), None).endswith("'t/$(rm)'")


KEPT_TOGETHER = {"namespaces": ["shop/orders"], "primary": ["broker-[12]"], "secondary": []}


def test_the_cluster_s_rules_hold_for_advice_and_are_recorded(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for broker in cluster.brokers:
        broker.answers |= {
            "/namespaceIsolationPolicies": lambda b, r: {"pair": KEPT_TOGETHER},
            "/failureDomains": lambda b, r: {"rack": {"brokers": ["broker-1:8080"]}},
            "/antiAffinity": say(b""),
        }
    cluster.brokers[0].held = dict.fromkeys(EIGHTHS, 100.0)
    assert advise(cluster, "--json", "--rounds", "1") == 0
    found = json.loads(capsys.readouterr().out)
    assert {move["target"] for move in found["moves"]} == {"broker-2:8080"}, "isolation keeps broker-3 out"
    said = "1 isolation policies, 1 failure domains (which Pulsar does not use), 0 anti-affinity groups"
    assert any(said in note for note in found["notes"])
    out = tmp_path / "r.jsonl"
    assert record(cluster, out) == 0
    capsys.readouterr()
    assert ballast("pulsar", "advise", str(out), *NO_CPU, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {move["target"] for move in found["moves"]} <= {"broker-2:8080"}
    assert any(said in note for note in found["notes"])


def test_rules_of_both_sources_are_an_error(
    cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.brokers[0].answers["/namespaceIsolationPolicies"] = lambda b, r: {"pair": KEPT_TOGETHER}
    conf = tmp_path / "conf.yaml"
    conf.write_text('placement: {isolation: {ours: {namespaces: ["shop/.*"], primary: ["broker-3"]}}}\n')
    assert advise(cluster, "--conf", str(conf)) != 0
    assert "placement.isolation is configured here" in capsys.readouterr().err


def test_rules_that_cannot_be_read_are_said(cluster: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    for broker in cluster.brokers:
        broker.answers["/failureDomains"] = status(403, "no")
    assert advise(cluster, "--rounds", "1") == 0
    said = capsys.readouterr()
    assert "rules of placement are not known" in " ".join(said.out.split())
    assert "failureDomains" in said.err
