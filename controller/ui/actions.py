"""What people do on the page: the commands of the command line, each with a person's name and a written reason.

A command goes the same way as one of the CLI: to Kafka, and into the journal, which says who sent it and why. Nobody
acts here without a name: it comes from the token, never from the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.config.settings import Settings
from controller.domain.errors import BadRecord, BallastError, shown
from controller.operations.commands import send_and_wait
from controller.operations.operator import Outcome

ANSWER_S = 20.0
LEAST_REASON, LONGEST_REASON = 3, 500  # characters
LONGEST_VALUE = 400
# kind -> its arguments: required ones, then those that may be left out
ACTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mode": (("mode",), ()),
    "strategy": (("strategy",), ()),
    "round_now": ((), ()),
    "approve": (("round",), ()),
    "decline": (("round",), ()),
    "unload_bundle": (("bundle",), ("to",)),
    "drain": (("broker",), ()),
    "undrain": (("broker",), ()),
    "override": (("override",), ("bundle", "namespace", "broker", "until_ms")),
    "end_override": (("id",), ()),
}
Send = Callable[[Settings, str, str, float, Mapping[str, Any], str], Outcome]


class NoName(BallastError):
    """Raised when somebody without a name wants to act."""


def act(settings: Settings, who: str | None, body: Mapping[str, Any], send: Send = send_and_wait) -> dict[str, Any]:
    """Carry out `{kind, args, why}` in the name of `who`; the journal's answer.

    Raises NoName, BadRecord for a request that is none of ACTIONS or gives no reason, and what `send_and_wait` raises.
    """
    if who is None:
        raise NoName("only a person with a token may act: log in (docs/ui.md)")
    kind, args, why = body.get("kind"), body.get("args", {}), body.get("why")
    if not isinstance(kind, str) or kind not in ACTIONS:
        raise BadRecord("kind", f"{shown(kind)} is none of {', '.join(ACTIONS)}")
    if not isinstance(why, str) or not LEAST_REASON <= len(why.strip()) <= LONGEST_REASON:
        raise BadRecord("why", f"write the reason, in {LEAST_REASON} to {LONGEST_REASON} characters")
    given = _check_args(kind, args)
    outcome = send(settings, kind, " ".join(why.split()), ANSWER_S, given, who)
    return {
        "command_id": outcome.command_id,
        "accepted": outcome.accepted,
        "reason": outcome.reason or None,
        "seq": outcome.seq,
        "who": who,
    }


def _check_args(kind: str, args: object) -> dict[str, Any]:
    """Only the arguments of this kind, as short texts, or a time. What they mean is judged by the controller."""
    required, optional = ACTIONS[kind]
    if not isinstance(args, Mapping):
        raise BadRecord("args", "args must be an object")
    foreign = sorted(set(args) - {*required, *optional})
    missing = [name for name in required if not args.get(name)]
    if foreign or missing:
        takes = f"it takes {', '.join([*required, *optional]) or 'no arguments'}"
        what = f"does not take {shown(', '.join(foreign))}: {takes}" if foreign else f"needs {', '.join(missing)}"
        raise BadRecord("args", f"{kind} {what}")
    for name, value in args.items():
        plain = isinstance(value, int) and not isinstance(value, bool) if name == "until_ms" else isinstance(value, str)
        if value is not None and (not plain or len(str(value)) > LONGEST_VALUE):
            wanted = "a time in ms" if name == "until_ms" else "a short text, in quotes"
            raise BadRecord("args", f"{name} must be {wanted}")
    return {name: value for name, value in args.items() if value not in (None, "")}
