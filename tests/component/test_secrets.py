"""A marked password, driven through failures in this process: nothing that is said, logged or kept holds it.

The same by real processes, `ps` included: tests/e2e/test_secret_processes.py. Mistyped configurations:
tests/unit/config/test_config_errors.py.
"""

from __future__ import annotations

import logging
import multiprocessing
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
import yaml

from controller.bus.producer import JsonProducer
from controller.cli.main import COMMANDS, main
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.process.logs import configure_logs
from controller.process.metrics import new_registry
from controller.service.metrics import ControlMetrics
from controller.service.rounds.process import run_worker
from controller.service.tables import ControlTables
from jobs import backtest_job, balance_job, maintain_job
from jobs.loads_runner import loads_settings
from tests.short_run import ShortRun, play

MARK = "mark-4f1c9a"
REACHING_KAFKA = (
    "status", "namespace create t/new", "topic create t/n/x", "topic unload t/n/x", "unload t/n/0x00000000_0x80000000",
    "split t/n/0x00000000_0x80000000", "drain b1", "undrain b1", "mode live", "strategy first",
    "override freeze t/n/0x00000000_0x80000000", "override exclude-namespace t/n", "round-now", "thaw",
    "approve 1 --why x", "decline 1 --why x", "repair --execute",
)  # fmt: skip
# They read no configuration of an operator's; `run` becomes another process (tests/e2e/test_secret_processes.py).
WITHOUT = ("demo", "sim", "replay-reports", "run", "setup", "init", "package", "spark", "completion")
# An agent waits for its Kafka: tests/e2e/test_secret_processes.py.
NOT_REACHING = (
    "config show --set kafka.topic_prefix=!",
    "brokers --set tables.root=/dev/null/x",
    "run --spark-conf none",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    return play(tmp_path_factory.mktemp("secrets") / "tables")


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens: whoever looks before connecting finds nothing wrong."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def conf(tmp_path: Path, run: ShortRun, port: int) -> Path:
    client = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ballast",
        "sasl_plain_password": MARK,
        "ssl_password": MARK,
        "ssl_cafile": "/no/such/ca.pem",
    }
    document = {
        "kafka": {"bootstrap_servers": f"127.0.0.1:{port}", "client": client},
        "tables": {"root": run.root.root, "checkpoints": str(tmp_path / "checkpoints")},
        "logging": {"level": "debug"},
    }
    path = tmp_path / "ballast.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def settings(conf: Path) -> Settings:
    return load_settings(conf, env={})


def test_the_mark_reaches_the_clients(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows could not fail otherwise."""
    held: list[dict[str, object]] = []
    monkeypatch.setattr("controller.bus.producer.KafkaProducer", lambda **configs: held.append(configs))
    JsonProducer("127.0.0.1:1", "x", settings.kafka.client)
    assert held[0]["sasl_plain_password"] == held[0]["ssl_password"] == MARK


@pytest.mark.parametrize("line", REACHING_KAFKA)
def test_commands_that_reach_kafka(
    line: str, conf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for client in ("bus.producer.KafkaProducer", "bus.cluster.KafkaConsumer"):
        monkeypatch.setattr(f"controller.{client}", _broken)
    said = _said(lambda: main([*line.split(), "--conf", str(conf)]), capfd)
    assert "no Kafka answers" in said
    assert "RuntimeError" in said
    assert MARK not in said


@pytest.mark.parametrize("line", NOT_REACHING)
def test_commands_that_fail_before(line: str, conf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert MARK not in _said(lambda: main([*line.split(), "--conf", str(conf)]), capfd)


@pytest.mark.parametrize(
    "line",
    [
        f"config check --set kafka.bootstrap_servers=u:{MARK}@h:9092",
        f"config check --set pulsar_cluster.service_urls=u:{MARK}@h:8080",
        f"config check --set store.address=u:{MARK}@h:1",
        f"config check --set http.bind_host=u:{MARK}@h",
        f"pulsar check --service-url http://h:1/?token={MARK}",
        f"pulsar check --service-url https://{MARK}@h:1",
        f"pulsar check --service-url u:{MARK}@h:1",
        f"pulsar advise http://u:{MARK}@h:1",
    ],
)
def test_addresses_that_are_refused(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    told = "".join(capfd.readouterr())
    assert ended.value.code
    assert MARK not in told
    assert told.count("\n") == 1, told


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in WITHOUT])
def test_a_fault_of_our_own_in_any_command(
    command: str, conf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A traceback is allowed then; values are not."""
    usage = next((line for line in (*REACHING_KAFKA, *OTHERS) if line.split()[0] == command), command)
    for module in ("controller.cli.options", "controller.cli.run.agent"):
        monkeypatch.setattr(f"{module}.load_settings", _fails_with_settings)
    said = _said(lambda: main([*usage.split(), "--conf", str(conf)]), capfd)
    assert "a fault" in said
    assert MARK not in said


@pytest.mark.parametrize("json_lines", [True, False])
@pytest.mark.parametrize("job", [balance_job, maintain_job, backtest_job])
def test_jobs_that_fail_at_their_session(
    job: object, json_lines: bool, conf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{job.__name__}.build_session", _broken_session)  # type: ignore[attr-defined]
    monkeypatch.setenv("BALLAST_LOGGING__JSON_LINES", str(json_lines).lower())
    arguments = ["--conf", str(conf)]
    if job is backtest_job:
        monkeypatch.setattr("controller.backtest.store.Store.arrays", lambda store, job: conf)
        arguments += ["--out", str(conf.parent), "--recording", "x", "--strategies", "steady"]
        arguments += ["--round-interval-ms", "60000", "--missed-steps", "3", "--gap-ms", "1000"]
    said = _said(lambda: job.main(arguments), capfd)  # type: ignore[attr-defined]
    assert "of the session" in said
    assert MARK not in said


@pytest.mark.parametrize("json_lines", [True, False])
def test_logged_exceptions(json_lines: bool, settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", json_lines)
    options = settings.kafka.client["sasl_plain_password"].get_secret_value()
    try:
        _broken(options=options, settings=settings, loads=loads_settings(settings))
    except RuntimeError as error:
        logging.getLogger("some.library").error("it failed", exc_info=error)
        logging.getLogger("py4j.clientserver").debug("Command to send: %s", options)
        structlog.get_logger("ours").exception("it failed", settings=settings, kafka=settings.kafka)
    said = "".join(capfd.readouterr())
    assert said.count("of the library") >= 2
    assert MARK not in said


def test_a_round_worker_that_breaks(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    broken = settings.model_copy(update={"loads": None})
    context = multiprocessing.get_context("spawn")
    _, theirs = context.Pipe()
    worker = context.Process(target=run_worker, args=(theirs, broken, False))
    worker.start()
    worker.join(60)
    said = "".join(capfd.readouterr())
    assert worker.exitcode == 1
    assert "Traceback" in said
    assert MARK not in said


def test_what_is_kept_of_a_configuration(settings: Settings, tmp_path: Path) -> None:
    tables = ControlTables(str(tmp_path / "tables"), "c1", settings, ControlMetrics(new_registry()), threading.Event())
    tables.record_config(1_000)
    kept = list((tmp_path / "tables" / "config_history").rglob("*.parquet"))
    assert kept
    assert not [file for file in kept if MARK.encode() in file.read_bytes()]
    rows = pa.concat_tables([pq.read_table(file) for file in kept]).to_pylist()
    assert "sasl_plain_password" in str(rows)
    assert MARK not in f"{rows}{settings.dump()}{settings!r}{settings.model_dump()}{settings.model_dump_json()}"


OTHERS = (
    "backtest --reports x --strategies steady", "agent --broker-id b9", "diff 1 --strategy steady", "quarantine list",
    "capture x --since 1h", "produce t/n/x", "consume t/n/x", "explain b1", "topic lookup t/n/x",
    "config check", "namespace list", "override list", "journal", "maintain", "store --data-dir x",
    "pulsar advise --service-url http://127.0.0.1:1", "kafka acls --agent a",
)  # fmt: skip


def _said(call: Callable[[], object], capfd: pytest.CaptureFixture[str]) -> str:
    """Everything said on the way, with the traceback of what nobody caught, as the interpreter prints it."""
    try:
        call()
    except SystemExit:
        pass
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    return "".join(capfd.readouterr())


def _broken(*arguments: object, **configs: object) -> None:
    raise RuntimeError("a fault of the library")


def _broken_session(*arguments: object, **more: object) -> None:
    raise RuntimeError("a fault of the session")


def _fails_with_settings(path: Path | None, *arguments: object, **more: object) -> Settings:
    settings = load_settings(path, env={})
    opened = settings.kafka.client["sasl_plain_password"].get_secret_value()
    raise RuntimeError(f"a fault, with {len(opened)} letters in hand")
