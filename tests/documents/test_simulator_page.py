"""docs/simulator.md gives a value and a unit for every argument that the parser of scenario files takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.sim.load.shapes import SHAPES
from controller.sim.scenario.assertions import KINDS
from controller.sim.scenario.commands import COMMANDS
from controller.sim.scenario.faults import FAULTS
from controller.sim.scenario.file import run_file

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
PASSED_ON = ("set", "operator", "assertion")  # take whatever their receiver knows
NAMED = ("isolation", "failure_domain", "anti_affinity")
VALUES = {  # what the parser says of a value that is none of its kind -> the page's word
    "is no duration": "duration", "is no whole number": "whole number", "is no number": "number",
}  # fmt: skip


def refusal(line: str) -> str:
    """What the parser says of the line; nothing, if it takes it."""
    try:
        run_file(line + "\n", "f")
    except ConfigError as error:
        return str(error)
    return ""


def lines() -> dict[str, str]:
    """Command as the page names it -> a line of it to which arguments can be added."""
    found = {name: name for name in COMMANDS if name not in (*PASSED_ON, *NAMED, "shape", "fault")}
    found |= {f"shape {kind}": f"shape {kind}" for kind in SHAPES}
    return found | {name: f"{name} anything" for name in NAMED} | {"fault": "fault crash"}


def arguments() -> dict[str, dict[str, str]]:
    """Command -> argument -> what kind of value the parser reads."""
    found: dict[str, dict[str, str]] = {}
    for command, line in lines().items():
        broker = " broker=b1" if command == "fault" else ""
        known = re.search(r"there are (.*)$", refusal(f"{line}{broker} levitation=1"))
        assert known is not None, command
        found[command] = {}
        for name in known[1].split(", "):
            given = f"{line} {name}=x" + ("" if name == "broker" else broker)
            said = refusal(given)
            found[command][name] = next((word for text, word in VALUES.items() if text in said), "name")
    for kind, keys in KINDS.items():
        found[f"assertion type={kind}"] = {
            key: next(word for text, word in VALUES.items() if text in refusal(f"assertion type={kind} {key}<=x"))
            for key in keys
        }
    return found


def told() -> dict[str, dict[str, tuple[str, str]]]:
    """Command -> argument -> value and unit, of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("### Units")[2].partition("\n## ")[0]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    command = ""
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) != 4 or not cells[1].startswith("`"):
            continue
        command = cells[0].strip("`") or command
        for name in re.findall(r"`(\w+)`", cells[1]):
            found.setdefault(command, {})[name] = cells[2], cells[3]
    return found


def test_every_argument_that_the_parser_takes_is_on_the_page_and_no_other() -> None:
    taken = {command: set(names) for command, names in arguments().items()}
    assert {command: set(names) for command, names in told().items()} == taken


@pytest.mark.parametrize("command", arguments())
def test_values_are_what_the_parser_reads_and_numbers_have_a_unit(command: str) -> None:
    for name, kind in arguments()[command].items():
        value, unit = told()[command][name]
        lists = {"numbers": "number", "names": "name"}
        assert lists.get(value, value) == kind, name
        assert unit or value == "duration" or name in ("broker", "seed"), f"{command} {name} has no unit"


def test_faults_and_shapes_are_those_of_the_parser() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [kind for kind in (*FAULTS, *SHAPES) if f"| `{kind}` |" not in page] == []


def test_the_base_load_is_of_one_core() -> None:
    """A broker of eight cores with base_cpu_pct=100 and next to no load is at an eighth."""
    scene = "gen_cluster brokers=1 cores=8\ngen_load bundles=1 tenants=1 topics=1 utilisation=0.0001\n"
    outcome = run_file(
        f"{scene}costs base_cpu_pct=100\nset strategy=headroom\neval duration=2m end=1m\n", "f"
    ).outcomes[0]
    assert outcome.track.loads()[-1].tolist() == pytest.approx([1 / 8], abs=0.001)
