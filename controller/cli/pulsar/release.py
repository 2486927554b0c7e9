"""`ballast pulsar release`: no more orders, and Pulsar's own balancer as it was before the adoption. Shown first.

With --apply: the controller stops orders, open ones end, the settings are put back, and the journal notes it. Run again
after an interruption it goes on. Without a controller the settings are put back all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from controller.brokers.pulsar.addresses import open_directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.switches import NotWritten, Switch, Switchboard
from controller.bus.cluster import check_reachable
from controller.cli.options import PROBLEM, AsJson, Timeout, Why, report_errors
from controller.cli.pulsar.changes import Apply, Plan, print_switches, read_until, switch_row, values_text
from controller.cli.pulsar.connection import Connection, takes_connection
from controller.cli.send_command import ANSWER_S
from controller.cli.show import emit_json, emit_text
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.domain.facts import MUST_BE_OFF
from controller.domain.observed import Adoption, AdoptionPhase
from controller.domain.state import ClusterState
from controller.operations.adoption import Reach, ReleaseJournal, refuse_another_cluster
from controller.operations.adoption_text import adoption_text
from controller.operations.commands import ForeignTopics, refuse_if_foreign
from controller.operations.operator import Operator
from controller.operations.reading import Reader


@dataclass(frozen=True, slots=True)
class Found:
    """Pulsar's settings and the journal's word, before anything is done."""

    switches: Sequence[Switch]
    adoption: Adoption | None
    journal_id: str | None
    open_orders: int

    @property
    def is_done(self) -> bool:
        """Whether the cluster is released already."""
        return self.adoption is not None and self.adoption.phase is AdoptionPhase.RELEASED

    @property
    def plan(self) -> Plan:
        """The overrides to put back, None to remove; empty if nothing was written, or all is back already."""
        before = self.adoption.before if self.adoption is not None and not self.is_done else {}
        return {s.setting: before[s.setting] for s in self.switches if before.get(s.setting, s.override) != s.override}


@report_errors
@takes_connection
def release(
    connection: Connection, apply: Apply = False, as_json: AsJson = False, why: Why = "", timeout: Timeout = ANSWER_S
) -> None:
    """Show what giving the cluster back to Pulsar's own balancer would do; --apply does it, also without a controller.

    Orders stop, open ones end, and the settings become what they were before `adopt`.
    """
    settings = connection.settings()
    state = Reader(settings).state()
    observed = state.observed
    switches = asyncio.run(_read(settings, state))
    found = Found(switches, observed.adoption, state.journal_id, len(observed.orders))
    if not as_json:
        _print(found)
    if not apply or found.is_done:
        if as_json:
            emit_json(_document(found, switches, reach=None))
        else:
            emit_text("There is nothing to do." if found.is_done else "Nothing was changed: --apply does it.")
        return
    with Operator(settings) as operator:
        _release(settings, state, found, ReleaseJournal(settings, operator), as_json, why, timeout)


def _release(
    settings: Settings, state: ClusterState, found: Found, journal: ReleaseJournal, as_json: bool, why: str,
    timeout_s: float,
) -> None:  # fmt: skip
    """Stop orders, put back, note it; each step is told once it is done. Exits with PROBLEM if a step is left."""

    def tell(text: str) -> None:
        if text:
            typer.echo(text, err=as_json)

    _refuse_if_foreign(settings, found.journal_id)
    journal.begin(why, timeout_s)
    tell(_begun_text(journal))
    left = journal.open_orders
    if journal.reach is Reach.JOURNAL:
        left = journal.wait_for_orders(lambda number: typer.echo(f"{_orders_text(number)}: waiting", err=True))
    switches = asyncio.run(_put_back(settings, state, found.plan))
    for switch in switches:
        tell(_put_back_text(switch, found.plan))
    journal.end(why, timeout_s)
    tell(_left_text(left, journal.reach))
    tell(_end_text(journal))
    if as_json:
        emit_json(_document(found, switches, journal.reach, dropped=journal.dropped, orders_left=left))
    if journal.reach is Reach.NOWHERE:
        raise typer.Exit(PROBLEM)


def _refuse_if_foreign(settings: Settings, journal_id: str | None) -> None:
    """Raise ForeignTopics if the topics are another journal's. Where Kafka does not tell, a release goes on without."""
    try:
        check_reachable(settings.kafka.bootstrap_servers)
        refuse_if_foreign(settings, journal_id)
    except ForeignTopics:
        raise
    except BallastError:
        return


async def _read(settings: Settings, state: ClusterState) -> list[Switch]:
    async with PulsarAdmin(settings.pulsar_cluster) as admin:
        return await (await _open_switchboard(admin, settings, state)).read(MUST_BE_OFF.values())


async def _open_switchboard(admin: PulsarAdmin, settings: Settings, state: ClusterState) -> Switchboard:
    """Of the journal's cluster. Raises AnotherCluster: one of several service URLs may be of another one."""
    members = await (await open_directory(admin)).refresh()
    refuse_another_cluster(settings, state, members.cluster, members.brokers)
    return Switchboard(admin, members.addresses)


async def _put_back(settings: Settings, state: ClusterState, plan: Plan) -> list[Switch]:
    """Put the overrides back, and look for a while whether brokers follow. Raises NotWritten and AnotherCluster."""
    async with PulsarAdmin(settings.pulsar_cluster) as admin:
        board = await _open_switchboard(admin, settings, state)
        for setting, override in plan.items():
            await board.write(setting, override)

        async def read() -> list[Switch]:
            return await board.read(MUST_BE_OFF.values())

        switches = await read_until(read, lambda found: all(_is_back(s, plan) and _follows(s, plan) for s in found))
    wrong = [switch for switch in switches if not _is_back(switch, plan)]
    if wrong:
        texts = ", ".join(
            f"{s.setting} is {s.override or 'not set'}, was {plan[s.setting] or 'not set'}" for s in wrong
        )
        raise NotWritten(f"Pulsar does not show the overrides that were put back: {texts}; run this again")
    return switches


def _is_back(switch: Switch, plan: Plan) -> bool:
    return switch.override == plan.get(switch.setting, switch.override)


def _follows(switch: Switch, plan: Plan) -> bool:
    return switch.setting not in plan or switch.follows(plan[switch.setting])


def _print(found: Found) -> None:
    print_switches(found.switches, found.plan)
    emit_text(f"Journal: {adoption_text(found.adoption)}.")
    if found.adoption is None:
        emit_text("So no setting is put back, only orders stop. Settings made by hand are undone by hand.")
    if found.open_orders:
        emit_text(f"{_orders_text(found.open_orders)}; with a controller, that ends before anything is put back.")


def _orders_text(number: int) -> str:
    return "1 order is open" if number == 1 else f"{number} orders are open"


def _begun_text(journal: ReleaseJournal) -> str:
    if journal.reach is not Reach.JOURNAL:
        return "No controller answers: what is put back comes first."
    dropped = f"; {journal.dropped} that waited for their turn were dropped" if journal.dropped else ""
    return f"No further order is sent{dropped}."


def _put_back_text(switch: Switch, plan: Plan) -> str:
    if switch.setting not in plan:
        return ""
    override = plan[switch.setting]
    done = "override removed" if override is None else f"override {override} put back"
    text = f"{switch.setting}: {done}; in force: {values_text(switch)}."
    if not _follows(switch, plan):
        text += " They may keep it until they restart: this version of Pulsar did not take the change at once."
    return text


def _left_text(left: int, reach: Reach) -> str:
    if not left:
        return ""
    if reach is Reach.JOURNAL:
        return f"Ended as `released`, whatever becomes of it: what was still open, {left} in all."
    return f"{_orders_text(left)} in the journal: the agent may still carry it out."


def _end_text(journal: ReleaseJournal) -> str:
    if journal.reach is Reach.JOURNAL:
        return "Released: Ballast watches and sends no orders until `ballast pulsar adopt --apply`."
    if journal.reach is Reach.KAFKA:
        return "The release waits in Kafka: the next controller carries it out before any order."
    return (
        f"Still to do: Kafka does not answer ({journal.trouble}), so no controller knows of the release. Run "
        "`ballast pulsar release --apply` again before one runs."
    )


def _document(found: Found, switches: Sequence[Switch], reach: Reach | None, **more: Any) -> dict[str, Any]:
    """For `--json`. `reach`: None if nothing was done."""
    adoption = found.adoption
    return {
        "applied": reach is not None,
        "phase": adoption.phase.value if adoption is not None else None,
        "reach": reach.value if reach is not None else None,
        "settings": [switch_row(switch, found.plan) for switch in switches],
        **more,
    }
