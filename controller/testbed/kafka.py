"""Runs a real single-node Kafka (KRaft) from the cached JARs, for the demo and the tests.

Settings, data, log and pid are in one folder. A folder keeps its ports, cluster id and data, so stopping and starting
restarts the same cluster. Kafka only listens on 127.0.0.1.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from controller.bus.cluster import cluster_id
from controller.domain.errors import BallastError, ConfigError
from controller.process.interrupts import check_interrupt, delay_interrupts
from controller.process.paths import SET_UP, jars_of
from controller.process.setup_java import Java, find_java, utf8_locale
from controller.testbed.kafka_settings import Door, log4j_properties, server_properties

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
SERVER_HEAP = ("-Xms64m", "-Xmx400m", "-XX:+UseSerialGC")
# Formatting takes a second: little compilation, little memory.
TOOL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STORAGE_TOOL = "kafka.tools.StorageTool"


class KafkaNotStarted(BallastError):
    """Raised when the embedded Kafka does not start; the message ends with the last lines of its log."""


class EmbeddedKafka:
    """One Kafka in one folder. `start` returns once it answers; `stop` works from any process with the folder."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        java: Java | None = None,
        jars: Sequence[Path] = (),
        *,
        doors: Sequence[Door] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`port`: 0 chooses a free one at the first start; later starts in the same folder use the same port.

        `doors` are fixed at the first start, too. `env` is added to the server's environment at each start.
        """
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.log_file = self.folder / "kafka.log"
        self.output_file = self.folder / "kafka.out"
        self.pid_file = self.folder / "kafka.pid"
        self._properties = self.folder / "server.properties"
        self._port = port
        self._java = java
        self._jars = list(jars)
        self._doors = tuple(doors)
        self._env = dict(env or {})
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> EmbeddedKafka:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:port`; known once Kafka has been started."""
        return f"127.0.0.1:{self._fixed_port()}"

    def settle_port(self) -> None:
        """Take a free port now, unless one was given: others are told of it before Kafka starts."""
        if self._port == 0 and not self._properties.exists():
            self._port = free_ports(1)[0]

    @property
    def pid(self) -> int | None:
        """The pid of the running server, or None. A pid reused by another program does not count."""
        process = self._process()
        return process.pid if process else None

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start Kafka unless it runs already. Raises KafkaNotStarted if it dies or does not answer in time.

        Interrupted, it leaves none running that it has started.
        """
        if self._process() is not None:
            self._wait_until_it_answers(time.monotonic() + timeout_s)
            return
        self._check_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_settings()
        if not (self.data / "meta.properties").exists():
            self._format()
        deadline = time.monotonic() + timeout_s
        with self.output_file.open("ab") as output, delay_interrupts():
            self._child = subprocess.Popen(
                self._command(SERVER_HEAP, "kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal stops the demo, which stops Kafka last
                cwd=self.folder,
                env={**os.environ, **utf8_locale(), **self._env},
            )
            started = psutil.Process(self._child.pid).create_time()
            self.pid_file.write_text(f"{self._child.pid} {started}\n")
        try:
            self._wait_until_it_answers(deadline)
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop Kafka with SIGTERM, after `timeout_s` with SIGKILL; its data is kept. False if it was not running."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> bool:
        """Kill Kafka with SIGKILL, like a crash; its data is kept. False if it was not running."""
        return self._end(signal.SIGKILL, STOP_TIMEOUT_S)

    def _end(self, how: signal.Signals, timeout_s: float) -> bool:
        process = self._process()
        if process is None:
            self.pid_file.unlink(missing_ok=True)
            return False
        process.send_signal(how)
        try:
            self._wait_for_end(process, timeout_s)
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            process.kill()
            self._wait_for_end(process, timeout_s)
        self._child = None
        self.pid_file.unlink(missing_ok=True)
        return True

    def _wait_for_end(self, process: psutil.Process, timeout_s: float) -> None:
        if self._child is not None and self._child.pid == process.pid:
            self._child.wait(timeout_s)
        else:
            process.wait(timeout_s)

    def _process(self) -> psutil.Process | None:
        try:
            pid, started = self.pid_file.read_text().split()
            process = psutil.Process(int(pid))
            ours = abs(process.create_time() - float(started)) < 0.1
            return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None

    def _check_port(self) -> None:
        """Raise KafkaNotStarted if the port is not available, before the folder is fixed on it."""
        settled = self._properties.exists()
        give = f"end what listens there, or give another --dir than {self.folder}" if settled else "give another --port"
        check_port(self._fixed_port() if settled else self._port, give)

    def _write_settings(self) -> None:
        if self._properties.exists():
            self._port = self._fixed_port()
        else:
            free = free_ports(2)
            self._port = self._port or free[0]
            self._properties.write_text(server_properties(self.data, self._port, free[1], self._doors))
        (self.folder / "log4j.properties").write_text(log4j_properties(self.log_file))

    def _fixed_port(self) -> int:
        if self._properties.exists():
            for line in self._properties.read_text().splitlines():
                if line.startswith("advertised.listeners="):
                    port = int(line.rsplit(":", 1)[1])
                    if self._port not in (0, port):
                        raise ConfigError(
                            f"{self.folder} holds a Kafka on port {port}, not {self._port}:"
                            " drop the port, or use another folder"
                        )
                    return port
        if self._port == 0:
            raise KafkaNotStarted(
                f"the Kafka in {self.folder} was never started, so it has no port yet: start it first"
            )
        return self._port

    def _format(self) -> None:
        tool = (STORAGE_TOOL, "format", "-t", new_cluster_id(), "-c", str(self._properties))
        done = subprocess.run(
            self._command(TOOL_JVM, *tool),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **utf8_locale()},
        )
        if done.returncode != 0:
            raise KafkaNotStarted(f"cannot format {self.data}: {(done.stdout + done.stderr).strip()[-800:]}")

    def _command(self, jvm: tuple[str, ...], *program: str) -> list[str]:
        self._java = self._java or find_java()
        self._jars = self._jars or jars_of("kafka")
        return kafka_command(self.folder, jvm, *program, java=self._java, jars=self._jars)

    def _wait_until_it_answers(self, deadline: float) -> None:
        while not is_port_open(self._fixed_port()):
            self._still_alive(deadline)
            time.sleep(0.05)
        while True:
            try:
                cluster_id(self.bootstrap, timeout_ms=5_000)
                return
            except Exception as error:
                self._still_alive(deadline, error)
                time.sleep(0.1)

    def _still_alive(self, deadline: float, error: Exception | None = None) -> None:
        check_interrupt()
        ended = self._child.poll() if self._child else None
        if ended is not None:
            self.pid_file.unlink(missing_ok=True)
            raise KafkaNotStarted(f"Kafka ended with code {ended} in {self.folder}: {self._last_words()}")
        if time.monotonic() > deadline:
            self.stop()
            raise KafkaNotStarted(f"Kafka in {self.folder} did not answer in time ({error}): {self._last_words()}")

    def _last_words(self) -> str:
        texts = [f.read_text(errors="replace") for f in (self.output_file, self.log_file) if f.exists()]
        return "\n".join(texts).strip()[-1500:] or "its log is empty"


def kafka_command(
    folder: Path, jvm: Sequence[str], *program: str, java: Java | None = None, jars: Sequence[Path] = ()
) -> list[str]:
    """The command of one of Kafka's programs, which logs as `log4j.properties` in the folder says.

    Raises KafkaNotStarted without Kafka's JARs.
    """
    found = list(jars) or jars_of("kafka")
    if not found:
        raise KafkaNotStarted(f"Kafka's JARs are not in the cache: run `{SET_UP}` once")
    return [
        (java or find_java()).binary,
        *jvm,
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j.configuration={(folder / 'log4j.properties').as_uri()}",
        "-cp",
        os.pathsep.join(map(str, found)),
        *program,
    ]


def new_cluster_id() -> str:
    """A cluster id as Kafka's own generator makes them."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return f"A{made[1:]}" if made.startswith("-") else made  # it would be parsed as an option


def check_port(port: int, give: str) -> None:
    """Raise KafkaNotStarted, which says what to `give` instead, if loopback cannot be listened on there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError as error:
            raise KafkaNotStarted(
                f"--port {port}: 127.0.0.1:{port} cannot be listened on ({error.strerror}); {give}"
            ) from None


def free_ports(count: int) -> list[int]:
    """Different ports that were free a moment ago."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def is_port_open(port: int) -> bool:
    """Whether something accepts connections there, on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
