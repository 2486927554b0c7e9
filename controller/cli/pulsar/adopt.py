"""`ballast pulsar adopt`: switches Pulsar's own balancer off, so that Ballast may send orders. Shown first.

With --apply, the journal learns what was there before anything is written. So an adoption that was interrupted is
simply run again, and a release still knows what to put back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.switches import OFF, Switch, Switchboard
from controller.cli.options import PROBLEM, AsJson, Timeout, Why, report_errors
from controller.cli.pulsar.changes import Apply, Plan, print_switches, read_until, switch_row
from controller.cli.pulsar.check import read_requirements
from controller.cli.pulsar.connection import Connection, takes_connection
from controller.cli.send_command import ANSWER_S
from controller.cli.show import emit_json, emit_table, emit_text
from controller.config.placement_values import placement_settings
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.domain.facts import MUST_BE_OFF
from controller.domain.observed import Adoption, AdoptionPhase
from controller.domain.state import LIVE, ClusterState
from controller.operations.adoption import controller_lives, read_state, refuse_another_cluster
from controller.operations.adoption_text import adoption_text
from controller.operations.commands import send_and_wait
from controller.operations.pulsar_requirements import WRONG, Requirement
from controller.operations.reading import Reader


class NotAdopted(BallastError):
    """Raised when an adoption cannot be finished; it is run again once its cause is gone."""


@dataclass(frozen=True, slots=True)
class Found:
    """The cluster as it is: its name, settings, and what is not met."""

    cluster: str
    switches: Sequence[Switch]
    unmet: Sequence[Requirement]

    @property
    def obstacles(self) -> list[Requirement]:
        """What is not met, and no dynamic setting can mend."""
        return [one for one in self.unmet if not one.setting]

    @property
    def plan(self) -> Plan:
        """The overrides to write; empty if all is as it must be."""
        return dict.fromkeys(sorted({one.setting for one in self.unmet if one.setting}), OFF)


@report_errors
@takes_connection
def adopt(
    connection: Connection, apply: Apply = False, as_json: AsJson = False, why: Why = "", timeout: Timeout = ANSWER_S
) -> None:
    """Show the broker settings that keep Pulsar's own balancer still; --apply writes them. Exit code 1 if it cannot."""
    settings = connection.settings()
    state = read_state(settings)
    found = asyncio.run(_read(settings, state))
    may, known = not found.obstacles, None if state is None else state.observed.adoption
    if not as_json:
        _print(found, known)
    already = known if not found.plan and known is not None and known.phase is AdoptionPhase.ADOPTED else None
    adoption = already or _adopt(settings, found, why, timeout) if apply and may else None
    if as_json:
        emit_json(
            {
                "applied": adoption is not None,
                "settings": [switch_row(switch, found.plan) for switch in found.switches],
                "obstacles": [asdict(one) for one in found.obstacles],
                "before": dict(adoption.before) if adoption is not None else None,
            }
        )
    elif adoption is None:
        emit_text("Nothing was changed: --apply does it." if may else "Nothing was changed. Mend this first.")
    elif already is not None:
        emit_text("Nothing was changed: it is adopted, and every broker has the settings.")
    else:
        _print_next(settings)
    if not may:
        raise typer.Exit(PROBLEM)


async def _read(settings: Settings, state: ClusterState | None) -> Found:
    async with PulsarAdmin(settings.pulsar_cluster) as admin:
        return await _read_with(admin, settings, state)


async def _read_with(admin: PulsarAdmin, settings: Settings, state: ClusterState | None) -> Found:
    """`state`: what the journal says. Raises AnotherCluster."""
    members, requirements = await read_requirements(admin, placement_settings(settings))
    refuse_another_cluster(settings, state, members.cluster, members.brokers)
    switches = await Switchboard(admin, members.addresses).read(MUST_BE_OFF.values())
    return Found(members.cluster, switches, [one for one in requirements if one.state == WRONG])


def _adopt(settings: Settings, found: Found, why: str, timeout_s: float) -> Adoption:
    """Journal what is there, write what must be, and see that all brokers have it. Raises NotAdopted."""
    Reader(settings)  # without tables nobody could answer
    if not controller_lives(settings):
        raise NotAdopted("no controller runs, which journals what is there now: start one with `ballast run`")
    before = {switch.setting: switch.override for switch in found.switches}
    outcome = send_and_wait(settings, "adopt", why, timeout_s, {"before": before, "cluster": found.cluster})
    if not outcome.accepted:
        raise NotAdopted(f"rejected: {outcome.reason} (command {outcome.command_id})")
    state = Reader(settings).state()  # which knows the cluster's name by now
    left = asyncio.run(_write(settings, state, found.plan))
    if left:
        waits = "; ".join(f"{one.broker}: {one.requirement} is {one.found}" for one in left[:3])
        raise NotAdopted(f"written, but not in force everywhere: {waits}; look with `ballast pulsar check`, run again")
    adoption = Reader(settings).state().observed.adoption
    assert adoption is not None, "the journal has accepted it"
    return adoption


async def _write(settings: Settings, state: ClusterState, plan: Plan) -> Sequence[Requirement]:
    """Write the overrides; returns what is not met when the time is up. Raises AnotherCluster: one of several service
    URLs may be of another one, and answer now."""
    async with PulsarAdmin(settings.pulsar_cluster) as admin:
        members, _ = await read_requirements(admin, placement_settings(settings))
        refuse_another_cluster(settings, state, members.cluster, members.brokers)
        for setting, override in plan.items():
            await Switchboard(admin, members.addresses).write(setting, override)
        return (await read_until(lambda: _read_with(admin, settings, state), lambda found: not found.unmet)).unmet


def _print(found: Found, adoption: Adoption | None) -> None:
    print_switches(found.switches, found.plan)
    emit_text(f"Journal: {adoption_text(adoption)}.")
    if found.obstacles:
        typer.echo("")
        rows = [(one.broker, one.requirement, one.found, one.remedy) for one in found.obstacles]
        emit_table(("broker", "requirement", "found", "remedy …"), rows, "what no dynamic setting can mend")


def _print_next(settings: Settings) -> None:
    state = Reader(settings).state()
    emit_text("Adopted: every broker has the settings. The agent sees them within a minute.")
    if state.mode == LIVE:
        emit_text("Mode is live: rounds send orders from then on.")
    else:
        emit_text(f"Mode is {state.mode}. Next, once its decisions look right: `ballast mode live`.")
