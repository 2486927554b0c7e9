"""`ballast round-now` and `ballast thaw`: two commands without arguments."""

from __future__ import annotations

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, report_errors
from controller.cli.send_command import ANSWER_S, carry_out

app = new_app()
thaw_app = new_app()


@app.command("round-now")
@report_errors
def round_now(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Run a round now instead of at the next interval; `ballast rounds` shows its outcome."""
    carry_out(conf, profile, sets, as_json, "round_now", why, timeout, {})


@thaw_app.command()
@report_errors
def thaw(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Reset the mass-failure breaker: the leases that it keeps alive end, and their bundles are assigned."""
    carry_out(conf, profile, sets, as_json, "thaw", why, timeout, {})
