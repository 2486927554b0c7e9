"""`ballast round-now` and `ballast thaw`: two nudges that need no argument."""

from __future__ import annotations

from controller.cli.commanding import ANSWER_S, carry_out
from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, told

app = new_app()
thaw_app = new_app()


@app.command("round-now")
@told
def round_now(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Evaluate the cluster now instead of at the next interval; see `ballast rounds` for what came of it."""
    carry_out(conf, profile, sets, as_json, "round_now", why, timeout, {})


@thaw_app.command()
@told
def thaw(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Overrule the mass-failure guard: end the leases it holds and assign their bundles."""
    carry_out(conf, profile, sets, as_json, "thaw", why, timeout, {})
