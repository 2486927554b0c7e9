"""Waiting work of one direction, fair between topics: each topic's next piece in turn.

After a bundle has moved, its clients send at once all that waited for the new owner. In one line, the first topic's
backlog would be served whole before the second topic's first message. Invariant: a topic's work keeps its order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Job(NamedTuple):
    """A request or delivery that waits for its turn. `alive` says whether it still has somebody to serve."""

    topic: str
    arrived_s: float
    messages: float
    bytes: int
    alive: Callable[[], bool]
    run: Callable[[], None]


class FairQueue:
    """Jobs in the order of service. `first` and `drop_first` speak of the same job as long as none is added between."""

    def __init__(self) -> None:
        self._topics: OrderedDict[str, deque[Job]] = OrderedDict()  # whose turn is next stands first
        self._count = 0

    def add(self, job: Job) -> None:
        """Append to its topic's line; a topic that had none waits behind all others."""
        self._topics.setdefault(job.topic, deque()).append(job)
        self._count += 1

    def first(self) -> Job:
        """The job whose turn it is; IndexError when there is none."""
        if not self._topics:
            raise IndexError("no job waits")
        return next(iter(self._topics.values()))[0]

    def drop_first(self) -> None:
        """Forget that job; the next topic's turn has come."""
        topic, jobs = next(iter(self._topics.items()))
        jobs.popleft()
        self._count -= 1
        if jobs:
            self._topics.move_to_end(topic)
        else:
            del self._topics[topic]

    def clear(self) -> None:
        """Forget all."""
        self._topics.clear()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        for jobs in self._topics.values():
            yield from jobs
