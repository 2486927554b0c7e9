"""`ballast topic create|unload|lookup`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import httpx
import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_group, report_errors, settings_of
from controller.cli.send_command import ANSWER_S, carry_out
from controller.cli.show import emit_facts, emit_json
from controller.config.http_access import http_access
from controller.domain.errors import BadRecord, BallastError
from controller.domain.ids import namespace_of
from controller.operations.reading import Reader
from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.access.client import REFUSALS, new_client, read_object, refusal_text

app = new_group("Topics: create, unload (close and reopen), look up.")
LOOKUP_S = 10.0
Topic = Annotated[str, typer.Argument(help="persistent://tenant/namespace/topic, or just tenant/namespace/topic")]


class LookupFailed(BallastError):
    """Raised when no agent knows who serves a topic."""


@app.command()
@report_errors
def create(
    topic: Topic,
    partitions: Annotated[int, typer.Option("--partitions", help="0: not partitioned.", min=0)] = 0,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Create a topic; each of its partitions is hashed and placed separately."""
    args = {"topic": full_name(topic), "partitions": partitions}
    carry_out(conf, profile, sets, as_json, "create_topic", why, timeout, args)


@app.command()
@report_errors
def unload(
    topic: Topic,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Make the owner close and reopen the topic; owner and epoch stay the same."""
    carry_out(conf, profile, sets, as_json, "unload_topic", why, timeout, {"topic": full_name(topic)})


@app.command()
@report_errors
def lookup(
    topic: Topic,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    timeout: Timeout = LOOKUP_S,
) -> None:  # fmt: skip
    """Ask the agents who serves a topic; this assigns its bundle if nobody owns it."""
    name = full_name(topic)
    settings = settings_of(conf, profile, sets)
    found = ask(Reader(settings).lookup_urls(), name, timeout, http_access(settings))
    if as_json:
        emit_json({"topic": name, **found})
    else:
        emit_facts([("topic", name), *((key, found.get(key)) for key in _ANSWER)])


_ANSWER = ("broker", "address", "lookup_url", "bundle", "epoch", "seq", "partitions")


def ask(urls: Iterable[str], topic: str, timeout_s: float, access: HttpAccess = NO_ACCESS_RULES) -> dict[str, Any]:
    """Ask agent after agent until one answers; skip agents that are unreachable, unsure, or do not let us in.

    `access`: the token and certificate to show. Raises LookupFailed with the last agent's message.
    """
    refusal = "no living broker has told where it answers lookups"
    with new_client(access, timeout_s) as http:
        for url in urls:
            try:
                answer = http.get(f"{url.rstrip('/')}/lookup", params={"topic": topic})
            except httpx.HTTPError as error:
                refusal = f"{url}: {type(error).__name__}: {error}"
                continue
            if answer.status_code == 200:
                try:
                    return read_object(answer)
                except BadRecord as error:
                    refusal = f"{url} answers no JSON object: {error.text}"
                    continue
            refusal = refusal_text(url, answer)
            if answer.status_code < 500 and answer.status_code not in REFUSALS:
                break
    raise LookupFailed(f"no agent found {topic}: {refusal}")


def full_name(topic: str) -> str:
    """The name with its domain, by default `persistent`. Raises BadRecord if it is no topic name."""
    name = topic if "://" in topic else f"persistent://{topic}"
    namespace_of(name)
    return name
