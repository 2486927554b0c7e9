"""Many runs of the simulated deployment: what is printed of them, exit codes, and runs that are the same anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from controller.agent.handover import core
from controller.agent.handover.rules import goal
from controller.testbed.simulated import __main__ as command
from controller.testbed.simulated.nemesis import ALL_FAULTS
from controller.testbed.simulated.runs import Run, run_seed

OFTEN, SELDOM, NEVER = "broker killed", "Kafka down", "take-over"


def runs(number: int, failing: int = 0) -> list[Run]:
    """So many, of which one in 25 had a fault that is rare."""
    return [
        Run(
            seed,
            "InvariantBroken: I1" if seed <= failing else "",
            Counter({OFTEN: 2, SELDOM: int(seed % 25 == 0), NEVER: 0}),
        )
        for seed in range(1, number + 1)
    ]


def test_faults_that_strike_seldom_or_never_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert command._tell(runs(100), 10.0) == [SELDOM, NEVER]
    told = {line.split("  ")[-1 - line.endswith("RARE")]: line for line in capsys.readouterr().out.splitlines()}
    assert "in 100 % of seeds" in told[OFTEN]
    assert "RARE" not in told[OFTEN]
    assert "in   4 % of seeds" in told[SELDOM]
    assert told[SELDOM].endswith("RARE")
    assert "in   0 % of seeds" in told[NEVER]
    assert told[NEVER].endswith("RARE")


def test_one_in_twenty_seeds_is_not_rare() -> None:
    found = [Run(seed, "", Counter({OFTEN: int(seed <= 5)})) for seed in range(1, 101)]
    assert command._tell(found, 1.0) == []
    assert command._tell(found[1:], 1.0) == [OFTEN]


@pytest.mark.parametrize(("number", "code"), [(399, 0), (400, 1)])
def test_of_many_seeds_none_may_lack_a_fault(monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
    monkeypatch.setattr(command, "_run_all", lambda seeds, processes: runs(len(seeds)))
    assert command.main(["--seeds", str(number)]) == code


def test_every_kind_of_fault_and_all_that_is_counted_is_in_a_run_without_any() -> None:
    run = run_seed(1, only=[])
    assert {"broker killed", "store killed", "transfer", "commit blocked", "drop is slow"} <= run.struck.keys()
    assert run.struck["broker killed"] == 0
    assert run_seed(2).struck.keys() == run.struck.keys()


@pytest.mark.parametrize("faults", [[], [4, 17]])
def test_the_command_that_is_printed_repeats_the_run(faults: list[int]) -> None:
    prompt, _, line = command.repeat_with(812, faults).partition("python -m controller.testbed.simulated ")
    assert prompt == "again: "
    given = command._arguments(line.split())
    assert (given.seed, given.only) == (812, faults)


def test_a_few_seeds_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "1", "--first", "3", "--processes", "1"]) == 0
    assert "seeds 3 to 3: 1 of 1 clean" in capsys.readouterr().out
    assert command.main(["--seed", "3", "--only="]) == 0
    assert "seed 3 is clean" in capsys.readouterr().out


def test_a_failing_seed_is_made_smaller_and_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Owners change as soon as a run begins: no fault is needed for this bug."""
    monkeypatch.setattr(core, "goal", lambda slot, record, me, released: goal(slot, record, me, True))
    monkeypatch.setattr(command, "shrink", lambda run: (run_seed(run.seed, [31], trace=True), [31]))
    assert command.main(["--seeds", "3", "--processes", "1"]) == 1
    told = capsys.readouterr().out
    assert "FAILED: InvariantBroken: I1" in told
    assert f"of {ALL_FAULTS} faults, 1 are enough" in told
    line = next(line for line in told.splitlines() if line.startswith("again: "))
    assert command.main(line.split()[4:]) in (0, 1)
    assert command.main(["--seeds", "3", "--until-failure"]) == 1


TRACE = """
import zlib
from controller.testbed.simulated.runs import run_seed
run = run_seed(5, trace=True)
print(len(run.trace), zlib.crc32("\\n".join(run.trace).encode()), sorted(run.messages.items()))
"""


def test_a_seed_is_the_same_run_whatever_the_order_of_sets() -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TRACE],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hashes in ("0", "1")
    ]
    first, second = (process.communicate(timeout=60)[0] for process in started)
    assert first == second
    assert len(first) > 100
