"""Runs the Pulsar demo in a folder: the cluster, Ballast beside it, and the acts, on a screen."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from controller.process.paths import make_folder
from controller.testbed.demo.screen.base import Watching
from controller.testbed.demo.screen.plain import PlainLines
from controller.testbed.demo.screen.view import LiveView
from controller.testbed.local_cluster import check_unused
from controller.testbed.pulsar.ballast import BallastOnPulsar
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.demo.figures import PulsarDemoFigures
from controller.testbed.pulsar.demo.scenario import OVERRIDES, PulsarDemo
from controller.testbed.pulsar.distribution import pulsar_home
from controller.testbed.pulsar.spec import ClusterSpec
from controller.testbed.pulsar.traffic.library import import_pulsar


def run_demo(where: Path, spec: ClusterSpec, console: Console, *, drawn: bool, short: bool) -> PulsarDemoFigures:
    """Run it and stop everything. `drawn`: a live view instead of lines. Raises ConfigError for a used folder."""
    import_pulsar()
    check_unused(where, "ballast")
    make_folder(where, f"--dir {where}")
    screen: Watching = LiveView(console) if drawn else PlainLines(console)
    with screen:
        pulsar = PulsarCluster(where / "pulsar", spec, screen.doing)
        ballast = BallastOnPulsar(where / "ballast", pulsar, OVERRIDES, tell=screen.doing)
        with pulsar, ballast:
            screen.act(f"starting a Pulsar cluster, Kafka, the Spark job and the agent in {where}")
            pulsar_home(screen.doing)  # a download does not count
            began_s = time.monotonic()
            pulsar.up()
            screen.watch(ballast.cluster)
            ballast.up()
            figures = PulsarDemo(pulsar, ballast, screen, where, began_s).run(short)
            screen.act("everything is stopped")
    return figures
