"""`ballast drain` and `ballast undrain`: empty a broker and keep it empty, or let it take bundles again.

`drain --wait` returns once the broker owns nothing and nothing is on its way to it. If that takes too long, the exit
code is 1 and the drain goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from controller.cli.options import (
    PROBLEM,
    AsJson,
    Conf,
    Profile,
    Sets,
    Timeout,
    Why,
    new_app,
    report_errors,
    settings_of,
)
from controller.cli.send_command import ANSWER_S, carry_out, print_outcome
from controller.cli.show import duration_text
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import BallastError
from controller.domain.state import Broker
from controller.ledger.follower import Follower
from controller.operations.bundles import all_bundle_rows
from controller.operations.commands import send_and_wait
from controller.operations.operator import POLL_S
from controller.operations.text import count_text

app = new_app()
undrain_app = new_app()
BrokerId = Annotated[str, typer.Argument(metavar="BROKER")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the broker owns nothing.")]
WaitTimeout = Annotated[float, typer.Option("--wait-timeout", help="Seconds that --wait waits at most.", min=0.1)]
WAIT_S = 600.0


class NotEmpty(BallastError):
    """Raised when the broker will never become empty."""


@app.command()
@report_errors
def drain(
    broker: BrokerId,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S, wait: Wait = False, wait_timeout: WaitTimeout = WAIT_S,
) -> None:  # fmt: skip
    """Move all bundles of the broker to others; it gets none until undrained, even after a restart."""
    settings = settings_of(conf, profile, sets)
    outcome = send_and_wait(settings, "drain", why, timeout, {"broker": broker})
    if not wait or not outcome.accepted:
        print_outcome(outcome, "drain", as_json)
        return
    if not as_json:
        print_outcome(outcome, "drain", as_json)
    began_s = time.monotonic()
    left = wait_until_empty(
        settings, broker, wait_timeout, lambda left: _print_progress(broker, left), _print_no_target
    )
    took_ms = round(1000 * (time.monotonic() - began_s))
    if as_json:
        print_outcome(outcome, "drain", as_json, {"bundles_left": left, "waited_ms": took_ms})
    elif not left:
        typer.echo(f"{broker} owns nothing, after {duration_text(took_ms)}")
    if left:
        more = f"after {wait_timeout:g} s: `ballast bundles --broker {broker}` lists them; the drain goes on"
        typer.echo(f"ballast: {broker} still has {count_text(left, 'bundle')} {more}", err=True)
        raise typer.Exit(PROBLEM)


def wait_until_empty(
    settings: Settings,
    broker: str,
    timeout_s: float,
    on_progress: Callable[[int], None],
    on_no_target: Callable[[], None] = lambda: None,
) -> int:
    """Wait until the broker has no bundles left; return how many it has when the time is up, else 0.

    `on_progress` is called with every new number above 0, `on_no_target` once if no other broker can take them. Raises
    NotEmpty if somebody has undrained the broker.
    """
    follower = Follower(table_root(settings))
    state = follower.bootstrap()
    deadline_s, last, alone = time.monotonic() + timeout_s, 0, False
    while True:
        left = sum(broker in (row["owner"], row["to"]) for row in all_bundle_rows(state))
        known = state.brokers.get(broker)
        if left and known is not None and not known.drained:
            raise NotEmpty(f"{broker} is not drained (any more): it keeps its {left} bundles")
        if left not in (0, last):
            on_progress(left)
        if left and not alone and not any(_takes(other) for other in state.live_brokers() if other.id != broker):
            alone = True
            on_no_target()
        if not left or time.monotonic() > deadline_s:
            return left
        last = left
        time.sleep(POLL_S)
        follower.catch_up()
        state = follower.state


def _takes(other: Broker) -> bool:
    return not (other.drained or other.leaving)


def _print_no_target() -> None:
    typer.echo("no other broker is there to take them: start one or undrain one; still waiting", err=True)


def _print_progress(broker: str, left: int) -> None:
    typer.echo(f"{broker}: {count_text(left, 'bundle')} left", err=True)


@undrain_app.command()
@report_errors
def undrain(
    broker: BrokerId,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Let a drained broker take bundles again."""
    carry_out(conf, profile, sets, as_json, "undrain", why, timeout, {"broker": broker})
