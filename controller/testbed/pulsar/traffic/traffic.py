"""The traffic of one run on a local Pulsar cluster: consumer and producer processes, rates, and the report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from controller.process.children import Child, ProcessFailed
from controller.process.interrupts import check_interrupt, delay_interrupts
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.credentials import ADMIN
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.library import import_pulsar
from controller.testbed.pulsar.traffic.report import TrafficReport, read_report

PROGRAMS = "controller.testbed.pulsar.traffic"
START_TIMEOUT_S = 120.0
DRAIN_S = 30.0


class Traffic:
    """Clients of the cluster: `start`, `set_rates` any number of times, `stop` for the report."""

    def __init__(self, cluster: PulsarCluster, folder: Path, topics: Sequence[str], size_bytes: int = 512) -> None:
        """`folder` gets the logs; a second run needs another one."""
        self.cluster = cluster
        self.folder = folder
        self.topics = list(topics)
        self.size_bytes = size_bytes
        self.rates: dict[str, float] = {}
        self._consumer: Child | None = None
        self._producer: Child | None = None

    def __enter__(self) -> Traffic:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def consumer_log(self) -> Path:
        """What the consumer process saw, line by line."""
        return self.folder / "consumer.jsonl"

    @property
    def producer_log(self) -> Path:
        """What the producer process saw, line by line."""
        return self.folder / "producer.jsonl"

    def start(self) -> None:
        """Start the consumers, and once they subscribe the producer. Raises PulsarFailed without pulsar-client."""
        import_pulsar()
        if self.consumer_log.exists():
            raise PulsarFailed(f"{self.folder} holds the logs of another run: give this one another folder")
        words = [word for topic in self.topics for word in ("--topic", topic)]
        with delay_interrupts():
            self._consumer = self._client("consumer", self.consumer_log, words)
        self._consumer.wait_for_line("ready", START_TIMEOUT_S)
        with delay_interrupts():
            self._producer = self._client("producer", self.producer_log, ["--size", str(self.size_bytes)])
        self._producer.wait_for_line("ready", START_TIMEOUT_S)

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Change the rates of these topics, in messages/s; all others keep theirs."""
        unknown = sorted(set(rates) - set(self.topics))
        if unknown:
            raise PulsarFailed(f"nobody consumes {unknown[0]}: name it when the traffic is made")
        if self._producer is None:
            raise PulsarFailed("the traffic has not been started")
        for topic, rate in rates.items():
            self.rates[topic] = rate
            self._producer.tell(json.dumps({"topic": topic, "rate": rate}))

    def wait_until_flowing(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until a message of every topic with a rate was acknowledged and received. Raises PulsarFailed."""
        wanted = {topic for topic, rate in self.rates.items() if rate > 0}
        deadline = time.monotonic() + timeout_s
        while waiting := wanted - (_last_highs(self.producer_log).keys() & _last_highs(self.consumer_log).keys()):
            if time.monotonic() > deadline:
                raise PulsarFailed(
                    f"{len(waiting)} of {len(wanted)} topics do not flow after {timeout_s:g} s, such as {min(waiting)};"
                    f" logs of the clients are in {self.folder}"
                )
            check_interrupt()
            time.sleep(0.5)

    def count_acknowledged(self) -> int:
        """How many messages have been acknowledged so far, those after a gap left out."""
        return sum(_last_highs(self.producer_log).values())

    def stop(self, drain_s: float = DRAIN_S) -> TrafficReport:
        """Stop sending, wait for the last acknowledgements and deliveries, and return what both sides saw."""
        if self._producer is None or self._consumer is None:
            raise PulsarFailed("the traffic has not been started")
        self._producer.stop(drain_s + 15)
        self._wait_until_read(drain_s)
        self._consumer.stop(30)
        for client in (self._producer, self._consumer):
            if client.process.returncode != 0:
                raise ProcessFailed(f"{client.name} ended with {client.process.returncode}: {client.last_words()}")
        return read_report([self.producer_log], [self.consumer_log])

    def kill(self) -> None:
        """End the clients without a report, as after an error. Does nothing after `stop`."""
        for client in (self._producer, self._consumer):
            if client is not None and client.alive:
                client.kill()

    def _wait_until_read(self, timeout_s: float) -> None:
        """Wait until the consumer has everything that was acknowledged, or the time is over."""
        acked = _last_highs(self.producer_log)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            read = _last_highs(self.consumer_log)
            if all(read.get(topic, 0) >= high for topic, high in acked.items()):
                return
            check_interrupt()
            time.sleep(0.2)

    def _client(self, name: str, log: Path, more: Sequence[str]) -> Child:
        argv = [sys.executable, "-m", f"{PROGRAMS}.{name}_program", "--log", str(log), *self._connection(), *more]
        return Child(f"traffic {name}", argv, self.folder / f"{name}.out", stdin=True)

    def _connection(self) -> list[str]:
        """Where and as whom the clients connect: by files, so that no process list shows a secret."""
        spec, credentials = self.cluster.spec, self.cluster.servers.credentials
        words = ["--service-url", self.cluster.client_url]
        if spec.tls:
            words += ["--authority", str(credentials.authority)]
        if spec.auth == "token":
            words += ["--token", str(credentials.token(ADMIN))]
        elif spec.auth == "tls":
            certificate, key = credentials.certificate(ADMIN)
            words += ["--certificate", str(certificate), "--key", str(key)]
        return words


def _last_highs(log: Path) -> dict[str, int]:
    """Up to which sequence each topic is complete, according to a log."""
    highs: dict[str, int] = {}
    if log.exists():
        with log.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # it is being written
                entry = json.loads(line)
                if entry["t"] == "topic":
                    highs[entry["topic"]] = entry["high"]
    return highs
