"""`ballast topic create|unload|lookup`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import httpx
import typer

from controller.cli.commanding import ANSWER_S, carry_out
from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_group, settings_of, told
from controller.cli.show import emit_facts, emit_json
from controller.domain.errors import BallastError
from controller.domain.ids import namespace_of
from controller.operations.reading import Reader

app = new_group("Topics: create, unload (close and reopen), look up.")
LOOKUP_S = 10.0
Topic = Annotated[str, typer.Argument(help="persistent://tenant/namespace/topic; a bare tenant/namespace/topic too")]


class LookupFailed(BallastError):
    """Raised when no agent could say who serves a topic."""


@app.command()
@told
def create(
    topic: Topic,
    partitions: Annotated[int, typer.Option("--partitions", help="0: not partitioned.", min=0)] = 0,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Create a topic; with partitions, each is hashed and placed for itself."""
    args = {"topic": full_name(topic), "partitions": partitions}
    carry_out(conf, profile, sets, as_json, "create_topic", why, timeout, args)


@app.command()
@told
def unload(
    topic: Topic,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Let the owner close and reopen the topic; owner and epoch stay."""
    carry_out(conf, profile, sets, as_json, "unload_topic", why, timeout, {"topic": full_name(topic)})


@app.command()
@told
def lookup(
    topic: Topic,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    timeout: Timeout = LOOKUP_S,
) -> None:  # fmt: skip
    """Ask the agents who serves a topic; an unowned bundle gets assigned by it."""
    name = full_name(topic)
    state = Reader(settings_of(conf, profile, sets)).state()
    urls = [str(b.info["lookup_url"]) for b in state.live_brokers() if b.info.get("lookup_url")]
    found = ask(urls, name, timeout)
    if as_json:
        emit_json({"topic": name, **found})
    else:
        emit_facts([("topic", name), *((key, found.get(key)) for key in _ANSWER)])


_ANSWER = ("broker", "address", "lookup_url", "bundle", "epoch", "seq")


def ask(urls: Iterable[str], topic: str, timeout_s: float) -> dict[str, Any]:
    """The first agent's answer; the next one is asked when an agent is unreachable or not sure.

    Raises LookupFailed with the last agent's words.
    """
    said = "no living broker has told where it answers lookups"
    for url in urls:
        try:
            answer = httpx.get(f"{url.rstrip('/')}/lookup", params={"topic": topic}, timeout=timeout_s, trust_env=False)
        except httpx.HTTPError as error:
            said = f"{url}: {type(error).__name__}: {error}"
            continue
        if answer.status_code == 200:
            return dict(answer.json())
        said = _refusal(url, answer)
        if answer.status_code < 500:
            break
    raise LookupFailed(f"no agent found {topic}: {said}")


def _refusal(url: str, answer: httpx.Response) -> str:
    try:
        return str(answer.json()["text"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answered {answer.status_code}"


def full_name(topic: str) -> str:
    """The name with its domain, `persistent` unless given. Raises BadRecord for what is no topic name."""
    name = topic if "://" in topic else f"persistent://{topic}"
    namespace_of(name)
    return name
