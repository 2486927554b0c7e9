"""The result of a play as one document, and where it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure.figures import RESULTS, write
from benchmarks.pulsar_compare import load
from benchmarks.pulsar_compare.figures import WITHIN, changes_of, check_reported, mean, minutes_of, relief_s
from benchmarks.pulsar_compare.play import WARM_UP_S, PhasesPlay
from benchmarks.pulsar_compare.plays import BROKERS, Play
from controller.testbed.pulsar.ballast import BallastOnPulsar, outcomes_of_orders
from controller.testbed.pulsar.distribution import pulsar_version
from controller.testbed.pulsar.traffic.report import TrafficReport

FOLDER = RESULTS / "pulsar_compare"
CALIBRATION = "calibration"


def describe(play: Play, volume: load.Volume) -> dict[str, Any]:
    """What was played, with every setting that is not Pulsar's or Ballast's own."""
    return {
        "title": play.title,
        "pulsar": pulsar_version(),
        "manager": play.manager,
        "brokers": BROKERS,
        "broker_settings": play.broker_settings,
        "ballast_settings": None if play.overrides is None else list(play.overrides),
        "load": {
            "bundles": load.number_of_bundles(BROKERS),
            "topics": load.number_of_bundles(BROKERS) * load.TOPICS_A_BUNDLE,
            "message_bytes": load.MESSAGE_BYTES,
            **asdict(volume),
            "warm_up_s": WARM_UP_S,
        },
    }


def balance(played: PhasesPlay, report: TrafficReport) -> dict[str, Any]:
    """Balance minute by minute, reliefs and unloads of a play of phases."""
    watch = played.watch
    minutes = minutes_of(watch.cpu, played.phases)
    spreads = [float(str(row["spread"])) for row in minutes if row["spread"] is not None]
    reliefs = {}
    for skew in played.skews:
        found = relief_s(watch.cpu, skew)
        length_s = round(max(0.0, skew.until_s - skew.from_s), 1)  # a broker may return late
        reliefs[skew.name] = {
            "relief_s": found,
            "length_s": length_s,
            "counted_s": length_s if found is None else found,
        }
    changes = changes_of(watch.owners, played.away)
    average = mean(spreads)
    return {
        "spread_mean": None if average is None else round(average, 3),
        "spread_end": spreads[-1] if spreads else None,
        "minutes": len(spreads),
        "minutes_above": sum(value > WITHIN for value in spreads),
        "unloads": len(changes),
        "reliefs": reliefs,
        "clients": report.document(),
        "sent_share": round(played.sent_share, 3),
        "reported_cpu": check_reported(watch.reported, played.stage.volume.broker_cores),
        "chosen": {
            name: {"broker": broker, "topics": played.topics_chosen.get(name)} for name, broker in played.chosen.items()
        },
        "by_minute": minutes,
        "changes": [asdict(change) for change in changes],
        "cpu_samples": [[sample.at_s, dict(sample.usage_pct)] for sample in watch.cpu],
        "not_seen": watch.failures,
    }


def ballast_part(ballast: BallastOnPulsar, before_s: Mapping[str, float], lasted_s: float) -> dict[str, Any]:
    """What Ballast did and what it cost: orders by outcome, cores by process. `before_s`: CPU used until the begin."""
    used_s = ballast.cpu_used_s()
    return {
        "orders": outcomes_of_orders(ballast.read_journal()),
        "cores": {name: round((used - before_s.get(name, 0.0)) / lasted_s, 3) for name, used in used_s.items()},
    }


def read_volume(folder: Path = FOLDER) -> load.Volume | None:
    """The volume that all plays have, once it was measured."""
    file = folder / f"{CALIBRATION}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text())["figures"]["volume"]
    return load.Volume(**{name: float(value) for name, value in found.items()})


def store(name: str, figures: Mapping[str, Any]) -> Path:
    """Write the document of a play, or of the calibration."""
    return write(name, figures, FOLDER)


def read_results(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Play -> its stored document."""
    files = [path for path in sorted(folder.glob("*.json")) if path.stem != CALIBRATION]
    return {path.stem: json.loads(path.read_text()) for path in files}
