"""Failpoints: their text form, and that they act at the hit they name. The killing ones run in a child process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from controller.domain.errors import ConfigError
from controller.process import failpoints


@pytest.fixture(autouse=True)
def switched_off() -> Iterator[None]:
    yield
    failpoints.activate("")


def test_nothing_happens_without_a_setting() -> None:
    failpoints.reach("control.before_journal")


def test_an_error_comes_at_its_hit_and_as_often_as_asked() -> None:
    failpoints.activate("journal.append=error@2*2")
    came = []
    for _ in range(5):
        try:
            failpoints.reach("journal.append")
            came.append(False)
        except OSError:
            came.append(True)
    assert came == [False, True, True, False, False]


def test_points_do_not_touch_each_other() -> None:
    failpoints.activate("journal.append=error;journal.read_log=delay(1)")
    failpoints.reach("journal.read_log")
    with pytest.raises(OSError, match=r"journal\.append"):
        failpoints.reach("journal.append")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("journal.apend=kill", "journal.apend"),
        ("journal.append=explode", "explode"),
        ("journal.append=delay", "delay"),
        ("journal.append=kill(3)", "kill"),
        ("journal.append=kill@x", "kill@x"),
    ],
)
def test_a_bad_setting_is_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        failpoints.parse(text)


def test_a_process_is_killed_at_the_hit_that_the_environment_names() -> None:
    program = "from controller.process.failpoints import reach\n"
    program += "for i in range(5): print(i, flush=True); reach('journal.append')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"BALLAST_FAILPOINTS": "journal.append=kill@3", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0", "1", "2"]
