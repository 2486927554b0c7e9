"""Runs a real Pulsar cluster in one folder: start, stop, kill, pause and add servers, from any process.

`up` starts whatever of the cluster does not run; if it fails or is interrupted, it stops what it started. Data, ports
and settings stay in the folder until `wipe`, so stopping and starting is the same cluster again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from signal import SIGCONT, SIGSTOP
from types import TracebackType

from controller.domain.errors import ConfigError
from controller.process.interrupts import check_interrupt
from controller.testbed.pulsar.admin import LocalAdmin
from controller.testbed.pulsar.distribution import pulsar_home, pulsar_version
from controller.testbed.pulsar.folder import hold, make_parts
from controller.testbed.pulsar.folder import wipe as wipe_folder
from controller.testbed.pulsar.ports import check_free
from controller.testbed.pulsar.server_files import known_settings
from controller.testbed.pulsar.servers import Servers
from controller.testbed.pulsar.spec import (
    BOOKIE,
    MOST_BROKERS,
    ZOOKEEPER,
    ClusterSpec,
    PulsarFailed,
    read_spec,
    write_spec,
)

BROKERS_AT_ONCE = 2  # more only compete for the cores: each start is 15 s of CPU
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0


class PulsarCluster:
    """The cluster in a folder. `tell` hears, line by line, what is being done and what takes long."""

    def __init__(self, folder: Path, spec: ClusterSpec, tell: Callable[[str], None] = lambda doing: None) -> None:
        """A new cluster, or that of the folder. Raises ConfigError if the folder holds a different one."""
        self.folder = folder.resolve()
        self.tell = tell
        stored = read_spec(self.folder)
        if stored is not None and stored != spec:
            raise ConfigError(
                f"{self.folder} holds another cluster: {_difference(stored, spec)}. Give another --dir, or"
                " remove that one with `ballast pulsar dev down --wipe`"
            )
        self.spec = spec
        self.servers = Servers(self.folder, spec)
        self._admin: LocalAdmin | None = None

    @classmethod
    def open(cls, folder: Path, tell: Callable[[str], None] = lambda doing: None) -> PulsarCluster:
        """The cluster of a folder. Raises ConfigError if it holds none."""
        spec = read_spec(folder.resolve())
        if spec is None:
            start = f"ballast pulsar dev up --dir {quote(str(folder))}"
            raise ConfigError(f"{folder} holds no Pulsar cluster: start one with `{start}`")
        return cls(folder, spec, tell)

    def __enter__(self) -> PulsarCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def admin(self) -> LocalAdmin:
        """Admin calls to the brokers, as super-user."""
        if self._admin is None:
            self._admin = LocalAdmin(self.spec, self.servers.credentials)
        return self._admin

    @property
    def web_urls(self) -> list[str]:
        """The admin addresses of all brokers: the service URL is these, joined by commas."""
        return [self.spec.web_url(name) for name in self.spec.broker_names]

    @property
    def client_url(self) -> str:
        """The service URL of clients, with the addresses of all brokers."""
        first, *others = (self.spec.client_url(name) for name in self.spec.broker_names)
        return ",".join([first, *(url.partition("://")[2] for url in others)])

    # ------------------------------------------------------------ the whole cluster

    def up(self, timeout_s: float = START_TIMEOUT_S) -> list[str]:
        """Start every server that does not run, and wait until all serve. Returns the names of those started."""
        with hold(self.folder):
            missing = [name for name in self.spec.server_names if self.servers.process(name).pid is None]
            home = self._prepare(missing) if missing else None
            with self._undone_on_failure():
                self._serve([ZOOKEEPER], home, timeout_s)
                if home is not None:
                    self._initialise(home)
                self._serve([BOOKIE], home, timeout_s)
                self._serve(self.spec.broker_names, home, timeout_s)
            return missing

    def down(self, wipe: bool = False) -> list[str]:
        """Stop every server, brokers first; data stay unless `wipe`. Returns the names of those that ran."""
        with hold(self.folder):
            ran = self.servers.running()
            for together in (self.spec.broker_names, [BOOKIE], [ZOOKEEPER]):
                living = [name for name in together if name in ran]
                if living:
                    self.tell(f"stopping {', '.join(living)}")
                self._stop(together)
            if self._admin is not None:
                self._admin.close()
                self._admin = None
            if wipe:
                wipe_folder(self.folder)
            return ran

    def add_broker(self, timeout_s: float = START_TIMEOUT_S) -> str:
        """Start one more broker; returns its name."""
        with hold(self.folder):
            number = max(self.spec.brokers) + 1
            if number > MOST_BROKERS:
                raise ConfigError(f"a cluster on one machine has at most {MOST_BROKERS} brokers")
            before, spec = self.spec, self.spec.model_copy(update={"brokers": (*self.spec.brokers, number)})
            name = f"broker{number}"
            check_free(spec, [name])
            self._become(spec)
            try:
                with self._undone_on_failure():
                    self._serve([name], self._prepare([name]), timeout_s)
            except BaseException:
                self._become(before)
                raise
            return name

    def remove_broker(self, name: str) -> None:
        """Stop a broker for good: it is no longer part of the cluster."""
        with hold(self.folder):
            number = self.spec.number(name)
            if len(self.spec.brokers) == 1:
                raise ConfigError(f"{name} is the only broker: stop the cluster instead")
            self._stop([name])
            others = tuple(other for other in self.spec.brokers if other != number)
            self._become(self.spec.model_copy(update={"brokers": others}))

    # ------------------------------------------------------------ one server

    def start(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a server and wait until it serves. Raises PulsarFailed if it runs already."""
        process = self.servers.process(name)
        if process.pid is not None:
            raise PulsarFailed(f"{name} runs already, with pid {process.pid} ({process.state})")
        with self._undone_on_failure():
            self._serve([name], self._prepare([name]), timeout_s)

    def stop(self, name: str) -> bool:
        """Stop a server with SIGTERM: a broker hands its bundles back first. False if it did not live."""
        return self.servers.process(name).stop(STOP_TIMEOUT_S)

    def kill(self, name: str) -> bool:
        """SIGKILL: like a crash. False if it did not live."""
        return self.servers.process(name).kill()

    def pause(self, name: str) -> bool:
        """SIGSTOP: the server keeps its connections and answers nothing. False if it does not live."""
        return self.servers.process(name).signal(SIGSTOP)

    def resume(self, name: str) -> bool:
        """SIGCONT: a paused server goes on. False if it does not live."""
        return self.servers.process(name).signal(SIGCONT)

    def restart(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Stop a server and start it again with the same settings."""
        self.stop(name)
        self.start(name, timeout_s)

    # ------------------------------------------------------------ inside

    def _prepare(self, missing: Sequence[str]) -> Path:
        """Everything that can be refused is refused here, before anything starts; returns where Pulsar is."""
        if self.spec.pulsar != pulsar_version():
            raise PulsarFailed(
                f"{self.folder} holds a cluster of Pulsar {self.spec.pulsar}, this version has {pulsar_version()}:"
                " give another --dir, or remove it with `ballast pulsar dev down --wipe`"
            )
        check_free(self.spec, missing)
        home = pulsar_home(self.tell)
        unknown = set(self.spec.settings) - known_settings((home / "conf" / "broker.conf").read_text())
        if unknown:
            self.tell(f"not in Pulsar's broker.conf, which ignores what it does not know: {', '.join(sorted(unknown))}")
        make_parts(self.folder)
        write_spec(self.folder, self.spec)
        self.servers.credentials.prepare(self.spec.auth, self.spec.tls)
        for name in missing:
            group = self.servers.cpu_group(name)
            if group is not None:
                group.make()
        return home

    def _initialise(self, home: Path) -> None:
        begun = time.monotonic()
        self.servers.initialise_metadata(home)
        if time.monotonic() - begun > 1:
            self.tell(f"metadata written after {time.monotonic() - begun:.0f} s")

    def _serve(self, names: Sequence[str], home: Path | None, timeout_s: float) -> None:
        """Start those servers that do not run, a few at once, and wait until each serves."""
        waiting, starting, launched = deque(names), dict[str, float](), set[str]()
        while waiting or starting:
            while waiting and len(starting) < BROKERS_AT_ONCE:
                name = waiting.popleft()
                if home is not None and self.servers.process(name).pid is None:
                    self.servers.launch(name, home)
                    launched.add(name)
                starting[name] = time.monotonic()
            for name, begun in list(starting.items()):
                self.servers.check_alive(name)
                took_s = time.monotonic() - begun
                if self.servers.serves(name, self.admin):
                    del starting[name]
                    self.servers.limit_cpu(name)
                    if name in launched:
                        self.tell(f"{name} serves after {took_s:.0f} s")
                elif took_s > timeout_s:
                    process = self.servers.process(name)
                    raise PulsarFailed(
                        f"{name} did not serve within {timeout_s:g} s; its log {process.log} ends with:"
                        f" {process.last_words()}"
                    )
            if starting:
                check_interrupt()
                time.sleep(0.2)

    def _stop(self, names: Sequence[str], timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop servers together, and remove their cgroups."""
        deadline = time.monotonic() + timeout_s
        for name in names:
            self.servers.process(name).request_stop()
        for name in names:
            self.servers.process(name).wait_or_kill(max(0.0, deadline - time.monotonic()))
            group = self.servers.cpu_group(name)
            if group is not None:
                group.remove()

    @contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        """Stop the servers started within the block if it fails or is interrupted."""
        before = set(self.servers.running())
        try:
            yield
            check_interrupt()
        except BaseException:
            started = [name for name in reversed(self.servers.running()) if name not in before]
            if started:
                self.tell(f"stopping {', '.join(started)} again")
            for name in started:
                self._stop([name], timeout_s=5.0)
            raise

    def _become(self, spec: ClusterSpec) -> None:
        """Take another set of brokers, here and in the folder."""
        write_spec(self.folder, spec)
        self.spec = spec
        self.servers.spec = spec  # the same object: it knows the processes that are children of this one
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def _difference(stored: ClusterSpec, wanted: ClusterSpec) -> str:
    """The first thing in which two clusters differ; values of settings are not shown, they may be secret."""
    if stored.brokers != wanted.brokers:
        return f"it has {len(stored.brokers)} brokers, not {len(wanted.brokers)}"
    name = next(name for name in ClusterSpec.model_fields if getattr(stored, name) != getattr(wanted, name))
    if name == "settings":
        keys = sorted(key for key, _ in stored.settings.items() ^ wanted.settings.items())
        return f"other values of {', '.join(dict.fromkeys(keys))}"
    return f"{name} is {getattr(stored, name)}, not {getattr(wanted, name)}"
