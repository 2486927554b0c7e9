"""A Spark standalone cluster on this machine, from the installed PySpark: one master and some workers, on loopback.

Each folder is one cluster and keeps its ports, so it can be stopped and started. Workers can be of another environment
and another user than the driver, and share nothing with it but the network. Whoever may connect to the master may run
code as the workers' user: it is for trying out and for tests.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from controller.domain.errors import BallastError
from controller.process.detached import DetachedProcess
from controller.process.setup_java import find_java, utf8_locale
from controller.testbed.kafka import KafkaNotStarted, check_port, free_ports

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
MASTER = "master"
LOOPBACK = "127.0.0.1"
SPEC_FILE = "spark.json"
DAEMON_MEMORY = "256m"  # of the master and of each worker, besides the executors
DEPLOY = "org.apache.spark.deploy"


class SparkNotStarted(BallastError):
    """Raised when a part of the cluster does not start; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class SparkSpec:
    """What a cluster is. `python`: the interpreter of the workers' environment, which has PySpark and what tasks need.
    `user`: whose processes the workers are; empty: the caller's."""

    port: int
    web_port: int
    workers: int
    cores: int  # of a worker
    memory_mb: int  # of a worker
    python: str
    user: str = ""


class Worker(NamedTuple):
    """A worker as the master lists it."""

    id: str
    alive: bool
    cores: int
    cores_used: int
    memory_mb: int


class SparkCluster:
    """The cluster of a folder; any process that knows the folder can look after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def spec(self) -> SparkSpec:
        """What it is. Raises SparkNotStarted for a folder that holds none."""
        try:
            return SparkSpec(**json.loads((self.folder / SPEC_FILE).read_text()))
        except FileNotFoundError:
            raise SparkNotStarted(f"{self.folder} holds no Spark cluster: `ballast spark up` makes one") from None

    @property
    def url(self) -> str:
        """For `spark.master`."""
        return f"spark://{LOOPBACK}:{self.spec.port}"

    def create(self, workers: int, cores: int, memory_mb: int, python: Path, user: str = "", port: int = 0) -> None:
        """Settle what the cluster of this folder is. Raises SparkNotStarted if it holds another one."""
        known = self.folder / SPEC_FILE
        ports = (self.spec.port, self.spec.web_port) if known.exists() else tuple(free_ports(2))
        spec = SparkSpec(port or ports[0], ports[1], workers, cores, memory_mb, str(python), user)
        if known.exists() and spec != self.spec:
            raise SparkNotStarted(
                f"{self.folder} holds a cluster with other settings ({known.read_text().strip()}): give another --dir"
            )
        if port and not known.exists():
            _check_port(port, "give another --port")
        self.folder.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(asdict(spec)) + "\n")

    def up(self) -> None:
        """Start what does not run, and wait until the master has all workers. Raises SparkNotStarted."""
        spec = self.spec
        if self.process(MASTER).pid is None:
            _check_port(spec.port, "end what listens there, or give another --dir")
            words = ["--host", LOOPBACK, "--port", str(spec.port), "--webui-port", str(spec.web_port)]
            self._start(MASTER, f"{DEPLOY}.master.Master", words, "")
        for number in range(1, spec.workers + 1):
            self.start_worker(number)
        self._wait_for_workers(spec.workers)

    def start_worker(self, number: int) -> None:
        """Start a worker, unless it runs; numbers beyond the spec's add more."""
        spec, name = self.spec, f"worker-{number}"
        if self.process(name).pid is not None:
            return
        place = self._place(name)
        words = ["--host", LOOPBACK, "--cores", str(spec.cores), "--memory", f"{spec.memory_mb}m", "--webui-port", "0",
                 "--work-dir", str(place), self.url]  # fmt: skip
        self._start(name, f"{DEPLOY}.worker.Worker", words, spec.user)

    def down(self) -> bool:
        """Stop workers and master; False if nothing ran. Executors end with their worker."""
        processes = [self.process(name) for name in reversed(self._names())]
        lived = [process.request_stop() for process in processes]
        for process in processes:
            process.wait_or_kill(STOP_TIMEOUT_S)
        return any(lived)

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker and to its executors, like the loss of its machine."""
        worker = self.process(f"worker-{number}")
        if worker.pid is not None:
            os.killpg(worker.pid, signal.SIGKILL)  # it leads a session of its own, with its executors
        worker.wait_or_kill(STOP_TIMEOUT_S)

    def workers(self) -> list[Worker]:
        """As the master lists them; empty while it does not answer."""
        try:
            answer = httpx.get(f"http://{LOOPBACK}:{self.spec.web_port}/json/", timeout=2.0)
            found = answer.raise_for_status().json()["workers"]
        except (httpx.HTTPError, ValueError, KeyError):
            return []
        return [Worker(w["id"], w["state"] == "ALIVE", w["cores"], w["coresused"], w["memory"]) for w in found]

    def facts(self) -> dict[str, Any]:
        """For `ballast spark status`."""
        spec = self.spec
        return {
            "up": self.process(MASTER).pid is not None,
            "dir": str(self.folder),
            "master": self.url,
            "web": f"http://{LOOPBACK}:{spec.web_port}",
            "processes": {name: self.process(name).state for name in self._names()},
            "workers": [worker._asdict() for worker in self.workers() if worker.alive],
        }

    def process(self, name: str) -> DetachedProcess:
        """`master`, or `worker-N`."""
        return DetachedProcess(name, self.folder / "pids" / f"{name}.pid", self.folder / "logs" / f"{name}.log")

    # ------------------------------------------------------------ inside

    def _names(self) -> list[str]:
        count = self.spec.workers if (self.folder / SPEC_FILE).exists() else 0
        known = {path.stem for path in (self.folder / "pids").glob("worker-*.pid")}
        return [MASTER, *sorted(known | {f"worker-{number}" for number in range(1, count + 1)})]

    def _start(self, name: str, program: str, words: Sequence[str], user: str) -> None:
        command = [*_as_user(user), f"{spark_home_of(Path(self.spec.python))}/bin/spark-class", program, *words]
        self.process(name).start(command, self._place(name), self._env())

    def _env(self) -> Mapping[str, str]:
        """Of master and workers. Executors inherit it: `python3` on their path is that of the workers' environment."""
        python = Path(self.spec.python)
        return {
            **utf8_locale(),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(spark_home_of(python)),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_CONF_DIR": str(self._place("conf")),
            "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": "",
            "HOME": str(self._place("home")),
        }

    def _place(self, name: str) -> Path:
        """A folder of the cluster's; the workers' user owns it."""
        place = self.folder / name
        if not place.exists():
            place.mkdir(parents=True)
            if self.spec.user:
                shutil.chown(place, self.spec.user)
        return place

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while sum(worker.alive for worker in self.workers()) < count:
            for name in self._names():
                if self.process(name).pid is None:
                    raise SparkNotStarted(f"{name} ended: {self.process(name).last_words()}")
            if time.monotonic() > deadline:
                raise SparkNotStarted(
                    f"{len(self.workers())} of {count} workers after {START_TIMEOUT_S:g} s; logs are in"
                    f" {self.folder / 'logs'}; what has started runs on: `ballast spark down --dir {self.folder}`"
                )
            time.sleep(0.1)


@lru_cache(maxsize=8)
def spark_home_of(python: Path) -> Path:
    """PySpark's folder in the environment of an interpreter. Raises SparkNotStarted where there is none."""
    asks = "import importlib.util; print(importlib.util.find_spec('pyspark').submodule_search_locations[0])"
    said = subprocess.run([str(python), "-c", asks], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise SparkNotStarted(f"{python} has no pyspark: give the interpreter of an environment with Ballast")
    return Path(said.stdout.strip())


def _check_port(port: int, give: str) -> None:
    """Raise SparkNotStarted for a port that is taken: the master would take the next one, where no worker looks."""
    try:
        check_port(port, give)
    except KafkaNotStarted as error:
        raise SparkNotStarted(str(error)) from None


def _as_user(user: str) -> Iterator[str]:
    """The words before a command that make it another user's."""
    if user and pwd.getpwuid(os.geteuid()).pw_name != user:
        account = pwd.getpwnam(user)
        yield from ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--")
