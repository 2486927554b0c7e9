"""The clock of leases runs while the machine sleeps and cannot be set; the controller uses it too."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from controller.process.clock import boot_ms, wall_ms
from controller.process.paths import ROOT
from controller.service.loop import Clocks
from tests.unit.machine import Machine

DAY_S = 86_400
PRINT_BOOT_MS = "from controller.process.clock import boot_ms; print(boot_ms())"


@pytest.mark.parametrize("ms", [boot_ms, Clocks().boot_ms], ids=["clock", "controller"])
def test_the_boot_clock_counts_sleep_and_follows_no_setting(machine: Machine, ms: object) -> None:
    assert callable(ms)
    before = ms()
    machine.set_wall(30_000)
    assert ms() == before
    machine.suspend(7_000)
    assert ms() == before + 7_000
    machine.set_wall(-90_000)
    machine.run(500)
    assert ms() == before + 7_500


@pytest.mark.parametrize("ms", [wall_ms, Clocks().wall_ms], ids=["clock", "controller"])
def test_the_wall_clock_is_the_one_that_is_set(machine: Machine, ms: object) -> None:
    assert callable(ms)
    before = ms()
    machine.set_wall(30_000)
    assert ms() == before + 30_000


def test_the_boot_clock_is_the_systems_time_since_boot() -> None:
    before, read, after = (
        time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        boot_ms(),
        time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    )
    assert before // 1_000_000 <= read <= after // 1_000_000


def test_a_machine_that_slept_for_a_day_says_so() -> None:
    """In a time namespace whose machine has been up a day longer, all of it asleep: only CLOCK_BOOTTIME tells."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare, of util-linux")
    namespace = [unshare, "--time", "--boottime", str(DAY_S), "--fork"]
    for more in ([], ["--user", "--map-root-user"]):
        if subprocess.run([*namespace, *more, "true"], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("needs time namespaces, which this system does not allow here")
    here = boot_ms()
    there = subprocess.run(
        [*namespace, *more, sys.executable, "-c", PRINT_BOOT_MS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert DAY_S * 1_000 <= int(there.stdout) - here <= DAY_S * 1_000 + 600_000
