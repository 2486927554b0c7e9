"""A cluster under load is started in the order in which its fleet can own its bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.loads import load_generator, loaded
from benchmarks.measure.loads.loaded import Load, start_loaded_cluster


class Recorded:
    """Stands for a `LocalCluster`, and for the processes that it starts; tells what it was asked for."""

    config_file = Path("ballast.yaml")

    def __init__(self, *_: object, **__: object) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **_: object) -> Recorded:
            self.calls.append((name, given))
            return self

        return call


def started(monkeypatch: pytest.MonkeyPatch, load: Load) -> tuple[list[str], list[str]]:
    """The calls in order, and the words of the fleet's command line."""
    monkeypatch.setattr(loaded, "LocalCluster", Recorded)
    with start_loaded_cluster(Path("nowhere"), load, None, 0.0) as cluster:
        assert isinstance(cluster, Recorded)
        ((_, (_, argv)),) = [call for call in cluster.calls if call[0] == "start"]
        return [name for name, _ in cluster.calls if name in ("start", "start_job", "wait_for_job")], argv


def test_a_fleet_that_owns_its_bundles_speaks_before_the_job_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    order, argv = started(monkeypatch, Load(7, 9, listed=5, owned=True))
    assert order == ["start", "start_job", "wait_for_job"]
    given = load_generator.options(argv[len(loaded.GENERATOR) :])
    assert (given.brokers, given.bundles, given.report_s, given.listed, given.owned) == (7, 9, 5.0, 5, True)


def test_any_other_fleet_is_granted_its_bundles_by_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    order, argv = started(monkeypatch, Load(7, 9))
    assert order == ["start_job", "wait_for_job", "start"]
    given = load_generator.options(argv[len(loaded.GENERATOR) :])
    assert (given.brokers, given.bundles, given.listed, given.owned) == (7, 9, None, False)
