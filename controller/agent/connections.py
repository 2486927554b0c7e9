"""An agent's connections to the rest, as the parts of other packages that it uses. Adapters are given from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from controller.agent.session.heartbeat import Sender
from controller.agent.watcher import Journal, Reader
from controller.bus.topics import TopicNames

MakeReader = Callable[[list[str], Callable[[Sequence[Any]], None], Callable[[Exception], None]], Reader]


class Wires(NamedTuple):
    """`urgent` carries heartbeats, answers and requests, `bulk` the load reports: a large report never stands before a
    heartbeat. `reader` makes the reader of topics, given a batch and a failure callback (both called in its thread)."""

    urgent: Sender
    bulk: Sender
    reader: MakeReader
    journal: Journal
    names: TopicNames
