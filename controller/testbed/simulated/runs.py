"""Runs of the simulated deployment by seed: one, many, and the smallest part of a failing one that still fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from unittest.mock import patch

import structlog

from controller.agent import watcher
from controller.agent.feed import read_feed
from controller.domain.events import parse_broker_event
from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups
from controller.domain.state_codec import collector_paused
from controller.testbed.simulated import controller, kafka, lookups, runtime, tables
from controller.testbed.simulated.checks import conditions
from controller.testbed.simulated.deployment import UNFENCED, Deployment
from controller.testbed.simulated.nemesis import ALL_FAULTS, Nemesis

COUNTED = (
    *kafka.COUNTED, *tables.COUNTED, *runtime.COUNTED, *lookups.COUNTED, *controller.COUNTED, *conditions.COUNTED,
    UNFENCED,
)  # fmt: skip
RECORDS_KEPT = 1_000  # with what they say; the slowest agent is not that far behind


@dataclass(frozen=True)
class Run:
    """What came of a seed. `failure`: empty if everything held. `struck`: how often each kind of fault did, and what is
    counted beside them, with 0 for what did not happen. `settled_ms`: until all was served after the faults."""

    seed: int
    failure: str
    struck: Counter[str] = field(default_factory=Counter)
    settled_ms: float = 0.0
    virtual_ms: float = 0.0
    messages: Counter[str] = field(default_factory=Counter)
    trace: tuple[str, ...] = ()


def run_seed(
    seed: int, only: Collection[int] | None = None, trace: bool = False, groups: AgentGroups = NO_GROUPS
) -> Run:
    """Run one seed, with all of its faults or some. `groups`: whose agents speak in topics of their own."""
    with _without_logs(), _parsing_once(), collector_paused():
        return _run_seed(seed, only, trace, groups)


def _run_seed(seed: int, only: Collection[int] | None, trace: bool, groups: AgentGroups) -> Run:
    deployment = Deployment(seed, groups=groups)
    deployment.trace = [] if trace else None
    nemesis = Nemesis(deployment)
    settled_ms, failure = 0.0, ""
    try:
        deployment.begin()
        nemesis.torment(only)
        deployment.note("the faults end")
        settled_ms = deployment.settle()
    except Exception as error:  # whatever it is, no simulated fault may cause it
        failure = f"{type(error).__name__}: {error}"
        deployment.note(failure)
    finally:
        deployment.close()
    struck = Counter(dict.fromkeys(COUNTED, 0))
    struck.update(nemesis.struck)
    struck.update(deployment.world.counts)
    trace_of = tuple(deployment.trace or ())
    return Run(seed, failure, struck, settled_ms, deployment.world.now_ms, deployment.messages.counts, trace_of)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Thousands of processes fail here, as they are meant to."""
    before, log_with = logging.root.manager.disable, structlog.get_config()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        logging.disable(before)
        structlog.configure(**log_with)


def _parsing_once() -> AbstractContextManager[object]:
    """All agents read the same records, in reality at the same time on their own machines: one parses for all.

    Nobody changes what parsers return, nor the entries of the simulated tables, which all followers share as well.
    """
    keep = lru_cache(RECORDS_KEPT)
    return patch.multiple(watcher, read_feed=keep(read_feed), parse_broker_event=keep(parse_broker_event))


def shrink(failing: Run, say: Callable[[str], None] = lambda text: None) -> tuple[Run, list[int]]:
    """The run with as few faults as still break the same invariant, with its trace, and the numbers of these faults.

    Parts are left out by halves first, then one by one, until nothing more can be.
    """
    kind = failing.failure[:24]
    kept, size = list(range(ALL_FAULTS)), ALL_FAULTS // 2
    while size:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if run_seed(failing.seed, fewer).failure[:24] == kind:
                kept = fewer
                say(f"{len(kept)} faults are enough")
            else:
                at += size
        size //= 2
    return run_seed(failing.seed, kept, trace=True), kept
