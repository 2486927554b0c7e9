"""The queue of one direction, fair between topics: it serves the topics in turn, one job each.

After a bundle has moved, its clients send everything at once that waited for the new owner. In a single FIFO queue the
first topic's backlog would delay the second topic's first message. Invariant: the order within a topic is kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Job(NamedTuple):
    """A queued request or delivery. `alive`: whether its client is still there."""

    topic: str
    arrived_s: float
    messages: float
    bytes: int
    alive: Callable[[], bool]
    run: Callable[[], None]


class FairQueue:
    """Jobs in serving order. `first` and `drop_first` refer to the same job as long as none is added in between."""

    def __init__(self) -> None:
        self._topics: OrderedDict[str, deque[Job]] = OrderedDict()  # the next topic is first
        self._count = 0

    def add(self, job: Job) -> None:
        """Append the job to its topic's queue; a topic without jobs goes behind all others."""
        self._topics.setdefault(job.topic, deque()).append(job)
        self._count += 1

    def first(self) -> Job:
        """The next job. Raises IndexError when there is none."""
        if not self._topics:
            raise IndexError("no job waits")
        return next(iter(self._topics.values()))[0]

    def drop_first(self) -> None:
        """Remove that job and move on to the next topic."""
        topic, jobs = next(iter(self._topics.items()))
        jobs.popleft()
        self._count -= 1
        if jobs:
            self._topics.move_to_end(topic)
        else:
            del self._topics[topic]

    def clear(self) -> None:
        """Remove all jobs."""
        self._topics.clear()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        for jobs in self._topics.values():
            yield from jobs
