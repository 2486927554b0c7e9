"""Shadow rounds on a live cluster: a poll, then a round, until one would act or enough have been seen.

A first poll only begins the readings of CPU. Pulsar's figures are averages over its statistics period, so one poll is
enough for a round; polls closer together see the same figures again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.backtest.advise.rounds import ShadowRound, ShadowRounds
from controller.backtest.recording.lines import LineReader
from controller.backtest.recording.recording import Recorder
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from controller.brokers.pulsar.recording.lines import line_of
from controller.domain.errors import BadRecord, BallastError
from controller.domain.settings.policy import PolicySettings
from controller.loads.recorded import Overrides
from controller.process.clock import wall_ms

FIRST_READING_S = 10.0  # between the first poll and the first round
PATIENCE_S = 15.0  # for brokers that are slow to answer a poll; a round waits for them


@dataclass(slots=True)
class Watched:
    """What live rounds saw. `failures`: broker -> why its newest poll gave nothing; `boundaries`: see `advice_of`.

    `non_persistent`: bundles that are known to hold non-persistent topics.
    """

    rounds: list[ShadowRound] = field(default_factory=list)
    failures: dict[str, BallastError] = field(default_factory=dict)
    boundaries: dict[str, int] = field(default_factory=dict)
    non_persistent: set[str] = field(default_factory=set)


Tell = Callable[[ShadowRound, Watched], None]


async def watch(
    poll: ClusterPoll, settings: PolicySettings, overrides: Overrides, *, every_s: float, most_rounds: int,
    stop: asyncio.Event, tell: Tell = lambda round_, watched: None,
) -> Watched:  # fmt: skip
    """Poll and decide until a round would act, after `most_rounds`, or when `stop` is set. `poll` has been started.

    Raises BallastError if no broker gave a report in any round.
    """
    watched, step_ms = Watched(), max(1, round(every_s * 1000))
    reader, recorder = LineReader(overrides), Recorder(step_ms)
    rounds = ShadowRounds(settings, step_ms)
    first_step = wall_ms() // step_ms
    pause_s = min(FIRST_READING_S, every_s)
    stopping = asyncio.ensure_future(stop.wait())
    await _poll_once(poll, stopping)
    due_s = time.monotonic() + pause_s
    for number in range(most_rounds):
        await asyncio.wait([stopping], timeout=max(due_s - time.monotonic(), 0.0))
        if stop.is_set():
            break
        heard = await _poll_once(poll, stopping)
        for broker in set(poll.members.brokers) - {polled.broker for polled in heard}:
            watched.failures[broker] = CallFailed(Outcome.TIMED_OUT, broker, "it has not answered the poll")
        _add(recorder, reader, heard, (first_step + number) * step_ms, watched)
        due_s = max(due_s + every_s, time.monotonic())
        if watched.rounds or any(polled.reported for polled in heard):
            recording = recorder.finish()
            watched.rounds.append(rounds.run(recording, len(recording.at_ms) - 1))
            tell(watched.rounds[-1], watched)
            if watched.rounds[-1].acts:
                break
    stopping.cancel()
    if not watched.rounds and watched.failures:
        raise next(iter(watched.failures.values()))
    return watched


async def _poll_once(poll: ClusterPoll, stopping: asyncio.Future[Any]) -> list[Polled]:
    """What brokers answered by the deadline; nothing more once the command is to stop."""
    heard: dict[str, Polled] = {}

    def take(polled: Polled) -> None:
        heard[polled.broker] = polled

    polling = asyncio.ensure_future(poll.poll(PATIENCE_S, take))
    await asyncio.wait([polling, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not polling.done():
        polling.cancel()
    else:
        polling.result()
    return list(heard.values())


def _add(recorder: Recorder, reader: LineReader, heard: list[Polled], at_ms: int, watched: Watched) -> None:
    """Add the answers of one poll, all with the time of its step."""
    for polled in heard:
        if polled.reported is None:
            if polled.failure is not None:
                watched.failures[polled.broker] = polled.failure
            continue
        try:
            figures = reader.read_row(line_of(polled), 1)
        except BadRecord as error:
            watched.failures[polled.broker] = BallastError(f"{polled.broker}: its figures are refused: {error.text}")
            continue
        watched.failures.pop(polled.broker, None)
        recorder.add_figures(*figures._replace(order=(at_ms, 1, 1)))
        stats = polled.reported.report["lastStats"]
        watched.non_persistent |= {name for name, row in stats.items() if row.get("nonPersistentTopics")}
        watched.boundaries |= {name: row["splitBoundary"] for name, row in stats.items() if "splitBoundary" in row}
