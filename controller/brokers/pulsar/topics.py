"""Reads `broker-stats/topics` of a broker: at wire speed into a spool file, parsed afterwards in a worker process.

A slow reader holds the broker's lock on its statistics, so nothing is parsed while the answer arrives, and one that
takes longer than `GIVE_UP_S` is given up. So is a parser, and its process replaced. Few brokers are read at once, since
an answer can be large.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.download import download
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.topic_rows import NotTopicStats
from controller.brokers.pulsar.topic_stats import Stats, parse_file
from controller.process.interrupts import no_interrupt_for_children

TOPICS_PATH = "/admin/v2/broker-stats/topics"
GIVE_UP_S = 10.0
AT_ONCE = 4


class TopicReader:
    """Reads the topics of brokers; an async context manager, as it has threads and a worker process."""

    def __init__(self, admin: PulsarAdmin, give_up_s: float = GIVE_UP_S) -> None:
        self._admin, self.give_up_s = admin, give_up_s
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._threads = ThreadPoolExecutor(AT_ONCE, "topics")
        self._parsing = asyncio.Lock()
        self._workers: ProcessPoolExecutor | None = None

    async def __aenter__(self) -> TopicReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False)
        if self._workers is not None:
            _end(self._workers)

    async def read(self, address: str) -> dict[str, Stats]:
        """Bundle -> sums of its topics, of everything that the broker at this address serves. Raises CallFailed."""
        about = f"{address}{TOPICS_PATH}"
        async with self._slots:
            try:
                with tempfile.NamedTemporaryFile(prefix="ballast-topics-") as spool:
                    answer = await download(
                        self._admin, TOPICS_PATH, address, spool.file, self._threads,
                        most_bytes=self._admin.settings.topics_max_bytes, timeout_s=self.give_up_s,
                    )  # fmt: skip
                    answer.require()
                    spool.flush()
                    return await self._parse(spool.name)
            except NotTopicStats as error:
                raise CallFailed(Outcome.BAD_ANSWER, about, str(error)) from None
            except asyncio.TimeoutError:
                detail = f"they were not parsed within {self.give_up_s:g} s"
                raise CallFailed(Outcome.TIMED_OUT, about, detail) from None
            except BrokenProcessPool:
                raise CallFailed(Outcome.TOO_LARGE, about, "the process that parses it was ended") from None
            except OSError as error:
                raise CallFailed(Outcome.TOO_LARGE, about, f"its spool file: {error.strerror}") from None

    async def _parse(self, path: str) -> dict[str, Stats]:
        """One at a time, so that nobody is given up, or ended with the process, for the sake of another answer."""
        async with self._parsing:
            if self._workers is None:
                self._workers = ProcessPoolExecutor(1, get_context("spawn"))
            try:
                with no_interrupt_for_children():  # the parent decides what Ctrl-C means
                    parsing = asyncio.get_running_loop().run_in_executor(self._workers, parse_file, path)
                return await asyncio.wait_for(parsing, self.give_up_s)
            except (asyncio.TimeoutError, asyncio.CancelledError, BrokenProcessPool):
                _end(self._workers)
                self._workers = None  # the next answer gets another process
                raise


def _end(workers: ProcessPoolExecutor) -> None:
    """With the process killed: should it hang, the interpreter would wait for it at its own end."""
    for process in list((workers._processes or {}).values()):
        process.kill()
    workers.shutdown(wait=False, cancel_futures=True)
