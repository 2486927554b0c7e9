"""What chaos leans on: a supervisor that starts again what ended, and tables that can be filled and locked."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.process.children import Child
from controller.testbed.chaos import supervisor as module
from controller.testbed.chaos.supervisor import End, Supervisor
from controller.testbed.chaos.volume import Volume
from tests.e2e.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
SOON_S = 30.0


@pytest.fixture
def children(tmp_path: Path) -> Iterator[dict[str, Child]]:
    found: dict[str, Child] = {}
    yield found
    for child in found.values():
        child.kill()


@pytest.fixture
def start(children: dict[str, Child], tmp_path: Path) -> Callable[[], Child]:
    def run() -> Child:
        children["one"] = Child("one", SLEEP, tmp_path / "one.log")
        return children["one"]

    return run


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTARTED_AFTER_S", 0.1)


def test_what_ends_by_itself_is_noted_and_started_again(children: dict[str, Child], start: Callable[[], Child]) -> None:
    first = start()
    with Supervisor({"one": start}, children) as supervisor:
        first.process.send_signal(signal.SIGTERM)
        wait_until(lambda: children["one"] is not first and children["one"].alive, SOON_S)
    assert supervisor.ends == [End("one", -signal.SIGTERM)]


def test_what_ends_for_good_stays_down(children: dict[str, Child], start: Callable[[], Child]) -> None:
    first = start()
    with Supervisor({"one": start}, children, final={"one": {-signal.SIGTERM}}) as supervisor:
        first.process.send_signal(signal.SIGTERM)
        wait_until(lambda: supervisor.ends, SOON_S)
        time.sleep(1.0)
        assert children["one"] is first


def test_what_is_killed_stays_down_until_it_is_released(children: dict[str, Child], start: Callable[[], Child]) -> None:
    first = start()
    with Supervisor({"one": start}, children) as supervisor:
        supervisor.kill("one")
        time.sleep(1.0)
        assert children["one"] is first
        assert not first.alive
        supervisor.release("one")
        wait_until(lambda: children["one"].alive, SOON_S)
    assert supervisor.ends == [], "the nemesis did it"


def test_a_start_that_fails_is_told(children: dict[str, Child], start: Callable[[], Child]) -> None:
    def fail() -> Child:
        raise OSError("no such program")

    start().kill()
    with Supervisor({"one": fail}, children) as supervisor:
        wait_until(lambda: supervisor.failure is not None, SOON_S)
    assert "no such program" in str(supervisor.failure)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    made = Volume(tmp_path / "tables")
    made.mount()
    if not made.usable:
        pytest.skip("this process may not mount a file system")
    yield made
    made.unmount()


def test_a_full_volume_takes_nothing_until_it_is_emptied(volume: Volume) -> None:
    file = volume.folder / "commit"
    volume.fill()
    with pytest.raises(OSError, match="No space left"):
        file.write_bytes(bytes(1 << 16))
    volume.empty()
    file.write_bytes(b"fits")
    volume.unmount()
    assert file.read_bytes() == b"fits", "what it held stays"
    assert not volume.usable


def test_a_locked_volume_can_be_read_and_not_written(volume: Volume) -> None:
    file = volume.folder / "commit"
    file.write_bytes(b"before")
    volume.make_read_only()
    assert file.read_bytes() == b"before"
    with pytest.raises(OSError, match="Read-only"):
        file.write_bytes(b"after")
    volume.make_writable()
    file.write_bytes(b"after")
    assert file.read_bytes() == b"after"
