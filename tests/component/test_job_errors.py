"""How the job ends: it tells why in one line, with the cause, and no part of it holds it up."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest
from deltalake.exceptions import DeltaError
from prometheus_client import CollectorRegistry
from tenacity import wait_none

from controller.config.settings import Settings
from controller.domain.errors import ConfigError, OutcomeUnknown
from controller.domain.state import ClusterState
from controller.ledger.maintenance import Tended
from controller.process.logs import configure_logs
from controller.service.arguments import parse_arguments
from controller.service.loop import Stopping
from jobs import balance_job, loads_query, maintain_job
from jobs.balance_job import _one_line
from jobs.control_query import remove_old_checkpoints
from jobs.control_runner import ControlRunner
from jobs.loads_query import LoadsQuery
from jobs.loads_runner import LoadsRunner
from jobs.signals import StartInterrupt


def test_a_table_store_that_fails_is_told_with_its_cause() -> None:
    """delta-rs draws the causes as a tree, the last of which says what happened."""
    error = DeltaError("Generic S3 error\n\x1b[31m↳\x1b[0m Error performing GET\n\x1b[31m↳\x1b[0m 403 Forbidden")
    error.add_note("table s3://lake/ballast/_probe")
    line = _one_line(error, {})
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.startswith("table s3://lake/ballast/_probe: Generic S3 error")
    assert line.endswith("403 Forbidden")


def test_a_table_store_that_is_away_is_told_as_such() -> None:
    """delta-rs raises a plain OSError then."""
    error = OSError(
        "Kernel error -> Generic S3 error\n \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:1/lake\n"
        " \x1b[31m↳\x1b[0m HTTP error\n \x1b[31m↳\x1b[0m error sending request\n \x1b[31m↳\x1b[0m Connection refused"
    )
    error.add_note("table s3://lake/ballast/broker_panes")
    assert _one_line(error, {}) == (
        "table s3://lake/ballast/broker_panes: Kernel error -> Generic S3 error: Error performing GET "
        "http://127.0.0.1:1/lake: HTTP error: error sending request: Connection refused: start again when the table "
        "store answers"
    )


@pytest.mark.parametrize("json_lines", [True, False])
def test_a_log_has_none_of_the_colours_of_errors(json_lines: bool) -> None:
    """Neither where the text of an error is logged, nor in its traceback."""
    stream, said = io.StringIO(), "Generic S3 error\n \x1b[31m↳\x1b[0m Connection refused"
    configure_logs("info", json_lines, stream)
    try:
        raise OSError(said)
    except OSError as error:
        logging.getLogger("ballast").error("the table cannot be read: %s", error, exc_info=error)
    assert "Connection refused" in stream.getvalue()
    assert "[31m" not in stream.getvalue()


class Batches:
    """Batches that fail with these errors before one succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    def process(self, frame: object, batch_id: int, query_id: str) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "the report"


AWAY = OSError("Kernel error -> Generic S3 error: HTTP error: error sending request")


class TestLoadsOfAStoreThatIsAway:
    def test_the_batch_runs_again_until_the_store_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loads_query, "wait_exponential", lambda max: wait_none())
        heard: list[object] = []
        batches = Batches(*[AWAY] * 9)
        loads = LoadsQuery(batches, heard.append)  # type: ignore[arg-type]
        monkeypatch.setattr(loads, "_publish", heard.append)
        loads.process(MagicMock(), 7)
        assert (batches.tries, heard, loads.failure, loads.blocked) == (10, ["the report"], None, "")

    def test_any_other_error_ends_the_query(self) -> None:
        error = OSError("Kernel error -> the operation lacked the necessary privileges")
        loads = LoadsQuery(Batches(error))  # type: ignore[arg-type]
        with pytest.raises(OSError, match="privileges"):
            loads.process(MagicMock(), 7)
        assert loads.failure is error

    def test_a_stop_does_not_wait_for_the_store(self) -> None:
        loads = LoadsQuery(Batches(*[AWAY] * 99))  # type: ignore[arg-type]
        runner = MagicMock(_loads=loads)
        threading.Timer(0.2, loads._stopped.set).start()
        with pytest.raises(Stopping):
            loads.process(MagicMock(), 7)
        assert "error sending request" in LoadsRunner.troubles(runner)[0]


def test_a_right_that_kafka_misses_is_told_by_who_lacks_it() -> None:
    """Spark's executors name a consumer group of their own."""
    client = {"security_protocol": "SASL_SSL", "sasl_plain_username": "job"}
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure\n\tat java\n"
        "Caused by: org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: "
        "spark-kafka-source-1-executor\n\tat java"
    )
    assert _one_line(error, client) == (
        "Kafka refuses it: User:job (kafka.client) lacks the right Read on group spark-kafka-source-1-executor: "
        "`ballast kafka acls` prints the ACLs that each role needs (docs/security.md#kafka)"
    )


OF_A_TASK = """An error occurred while calling o8858.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2935)
Caused by: org.apache.spark.SparkException: it failed
\tat java
Caused by: {cause}
\tat org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer.fetch(KafkaDataConsumer.scala:97)
"""
ENDED = "[STREAM_FAILED] Query [id = 1] terminated with exception: "


@pytest.mark.parametrize(
    ("text", "waited"),
    [
        (
            OF_A_TASK.format(
                cause="java.util.concurrent.TimeoutException: Cannot fetch record for offset 17 in 120000 milliseconds"
            ),
            "for 120 s",
        ),
        (f"{ENDED}org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listNodes\n\tat java", "in time"),
        (f"{ENDED}it\n\tat java\nCaused by: org.apache.kafka.common.errors.TimeoutException: late", "in time"),
    ],
)
def test_a_kafka_that_is_away_is_told_as_such(text: str, waited: str) -> None:
    line = _one_line(RuntimeError(text), {}, "k1:9092,k2:9092")
    assert line == f"Kafka at k1:9092,k2:9092 did not answer {waited}: start again when it does"


def test_the_query_that_ended_tells_it_too() -> None:
    reason = RuntimeError(f"{ENDED}org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listNodes")
    query = MagicMock(isActive=False)
    query.exception.return_value = reason
    control, loads = MagicMock(_loop=None, _query=query), MagicMock(_loads=MagicMock(failure=None, query=query))
    control._settings = loads._settings = Settings()
    for ended in (ControlRunner.failure(control), LoadsRunner.failure(loads)):
        assert f"query ended: Kafka at {Settings().kafka.bootstrap_servers} did not answer in time" in str(ended)


def test_the_innermost_cause_is_told() -> None:
    assert _one_line(RuntimeError(OF_A_TASK.format(cause="java.io.IOException: No space")), {}) == (
        "java.io.IOException: No space"
    )
    assert _one_line(RuntimeError("An error occurred while calling o1.x.\n: java.lang.Error: x\n\tat y"), {}) == (
        "java.lang.Error: x"
    )
    ended = RuntimeError(f"{ENDED}Job aborted\n\tat java\nCaused by: java.io.IOException: No space\n\tat java")
    assert _one_line(ended, {}) == f"{ENDED}Job aborted (cause: java.io.IOException: No space)"


def test_of_a_task_the_last_line_of_its_own_stack_tells() -> None:
    stack = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "task.py", line 3, in store\n    files.open()\n'
        "OSError: Generic S3 error: 403 Forbidden: denied\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "task.py", line 5, in store\n    raise NotStored(it)\n'
        "controller.ledger.store.data_files.NotStored: s3://lake/t takes no file: 403 Forbidden; it needs credentials\n"
        "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)\nCaused by: x.Y: later\n"
    )
    told = "s3://lake/t takes no file: 403 Forbidden; it needs credentials"
    assert _one_line(RuntimeError(stack), {}) == told
    assert _one_line(RuntimeError("Job aborted\n\tat java\n" + stack), {}) == told


def test_of_spark_the_first_line_is_enough() -> None:
    assert _one_line(RuntimeError("it failed\n at java\n at java"), {}) == "it failed"
    assert _one_line(ConfigError("loads.pane_s = 0 is too small"), {}) == "loads.pane_s = 0 is too small"


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """The job sets handlers, and silences py4j."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    level = logging.getLogger("py4j").level
    yield
    logging.getLogger("py4j").setLevel(level)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_handlers")
def test_an_interrupt_while_the_session_starts_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The JVM ends with it, and whatever asks the JVM fails."""

    def start(name: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext")

    monkeypatch.setattr(balance_job, "build_session", start)
    for name in ("configure_logs", "check_job", "_make_runners"):
        monkeypatch.setattr(balance_job, name, MagicMock())
    assert balance_job.main([]) == 130
    assert capfd.readouterr().err == "ballast: interrupted\n"


@pytest.mark.usefixtures("own_handlers")
def test_a_start_that_survives_its_interrupt_ends_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_job, "_run", lambda *given: signal.raise_signal(signal.SIGINT) or 0)
    for name in ("configure_logs", "check_job"):
        monkeypatch.setattr(balance_job, name, MagicMock())
    assert balance_job.main([]) == 130
    stop = threading.Event()
    assert not StartInterrupt(stop).came
    assert not stop.is_set()


def test_an_interrupt_among_the_imports_is_one_line() -> None:
    program = """
import signal, sys
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "jobs.balance_job":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Slow())
from jobs.balance import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ballast: interrupted\n")


def test_a_table_whose_failure_has_no_text_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [MemoryError(), Tended("decisions")]
    monkeypatch.setattr(maintain_job, "maintain", MagicMock(side_effect=found))
    assert maintain_job.maintain_all(MagicMock(), MagicMock(), Settings(), ["rounds", "decisions"]) == [None, found[1]]


def test_old_checkpoints_that_cannot_be_listed_stop_no_start(caplog: pytest.LogCaptureFixture) -> None:
    spark = MagicMock()
    spark.sparkContext._gateway.jvm.org.apache.hadoop.fs.Path.side_effect = TimeoutError()
    remove_old_checkpoints(spark, "/checkpoints/control/1")
    assert caplog.messages == ["old checkpoints beside /checkpoints/control/1: TimeoutError"]


@pytest.mark.parametrize("refusal", [OutcomeUnknown("no answer"), DeltaError("503"), OSError("no route")])
def test_a_stop_that_the_store_does_not_take_ends_all_the_same(refusal: Exception) -> None:
    runner = ControlRunner(Settings(), parse_arguments([]), CollectorRegistry(), threading.Event())
    loop, tables, feed = MagicMock(), MagicMock(), MagicMock()
    loop.failure, loop.state, loop.last_batch_id, loop.unjournaled = None, ClusterState(), 1, {}
    tables.commit.side_effect = refusal
    runner._loop, runner._tables, runner._feed = loop, tables, feed
    runner.stop(clean=False, failed="the loads query ended: 503")
    (entry,) = tables.commit.call_args[0][0]
    assert entry.data == {"failed": "the loads query ended: 503"}
    tables.stop_projecting.assert_called_once_with(None)
    feed.stop.assert_called_once()


def test_a_query_that_fails_ends_a_commit_that_the_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again until the stop is asked for, and the stop of its query waits for it."""
    stop, given_up = threading.Event(), []
    blocked, failed = MagicMock(), MagicMock()
    blocked.failure.return_value, failed.failure.return_value = None, ValueError("a bug")
    blocked.stop.side_effect = lambda clean, failed: given_up.append(stop.wait(0.1))
    monkeypatch.setattr(balance_job, "_make_runners", lambda *given: [blocked, failed])
    for name in ("build_session", "EngineWatch", "HealthServer", "stop_on_signals", "stop_on_jvm_signals", "quieten"):
        monkeypatch.setattr(balance_job, name, MagicMock())
    with pytest.raises(ValueError, match="a bug"):
        balance_job._run(Settings(), parse_arguments([]), stop)
    assert given_up == [True]
    (clean, why), _ = blocked.stop.call_args
    assert (clean, "a bug" in why) == (False, True)
