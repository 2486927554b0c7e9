"""What would hinder a start is one line before anything is started."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from controller.bus import NOISY_LOGGERS
from controller.bus.cluster import NO_SETTINGS, KafkaUnavailable, check_answers
from controller.cli.main import main
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.errors import ConfigError, StoreError
from controller.process.logs import configure_logs
from controller.service.arguments import EXIT_FAILED, exit_code
from controller.service.start_checks import check_folder, check_job
from controller.testbed.certificates import Authority


def settings_of(folder: Path, **more: str) -> Settings:
    given = {"tables.root": str(folder / "tables"), "tables.checkpoints": str(folder / "checkpoints"), **more}
    return load_settings(None, overrides=[f"{key}={value}" for key, value in given.items()], env={})


@contextmanager
def hanging_up() -> Iterator[str]:
    """An address that takes every connection and ends it at once, as Kafka does with one that it does not follow."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def refusal(settings: Settings, checkpoint: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check_job(settings, checkpoint)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_places_that_are_there_or_can_be_made(tmp_path: Path) -> None:
    check_job(settings_of(tmp_path))
    (tmp_path / "tables").mkdir()
    check_job(settings_of(tmp_path), str(tmp_path / "other place"))
    check_job(settings_of(tmp_path, **{"tables.root": "s3://bucket/tables"}))
    assert os.listdir(tmp_path) == ["tables"]  # nothing is made by looking


def test_places_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("")
    for key in ("tables.root", "tables.checkpoints"):
        for place in (str(file), f"{file}/below"):
            told = refusal(settings_of(tmp_path, **{key: place}))
            assert told.startswith(f"{key} = {place} (override) cannot be used: {file} is a file")
    assert f"--checkpoint = {file}" in refusal(settings_of(tmp_path), str(file))
    for above in ("/tmp", f"{tmp_path}/none"):
        assert "too long" in refusal(settings_of(tmp_path, **{"tables.root": f"{above}/{'x' * 300}"}))
    for name, to in (("lost", "nowhere"), ("itself", "itself")):
        (tmp_path / name).symlink_to(tmp_path / to)
        told = refusal(settings_of(tmp_path, **{"tables.root": f"{tmp_path}/{name}/tables"}))
        assert told.startswith(f"tables.root = {tmp_path}/{name}/tables (override) cannot be used: ")


def test_an_address_with_a_login_is_refused_without_showing_it(tmp_path: Path) -> None:
    address = "s3a://AKIA4711:hun/ter2@bucket/ballast"
    for key in ("tables.root", "tables.checkpoints"):
        told = refusal(settings_of(tmp_path, **{key: address}))
        assert told.startswith(f"{key} = s3a://***@bucket/ballast (override) holds a login, which Hadoop refuses")
    assert "--checkpoint = s3a://***@bucket/ballast holds a login" in refusal(settings_of(tmp_path), address)


def test_an_address_with_a_query_part_is_refused_without_showing_it(tmp_path: Path) -> None:
    told = refusal(settings_of(tmp_path), "s3a://bucket/x?hunter2")
    assert told.startswith("--checkpoint has a query part")
    assert "hunter2" not in told
    assert settings_of(tmp_path, **{"tables.root": f"{tmp_path}/what?"}).tables.root == f"{tmp_path}/what?"


def test_config_check_refuses_places_that_no_job_could_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for key, value, told in (
        ("tables.checkpoints", "/proc/none/ck", "tables.checkpoints = /proc/none/ck (override) cannot be used"),
        ("tables.root", f"{tmp_path}/file", f"{tmp_path}/file is a file"),
        ("tables.checkpoints", "s3a://key:word@b/x", "tables.checkpoints = s3a://***@b/x (override) holds a login"),
    ):
        given = {"tables.root": f"{tmp_path}/t", "tables.checkpoints": f"{tmp_path}/c", key: value}
        with pytest.raises(SystemExit) as ended:
            main(["config", "check", *(word for pair in given.items() for word in ("--set", "=".join(pair)))])
        assert ended.value.code == 2
        assert told in capsys.readouterr().err


def config_check(folder: Path, capsys: pytest.CaptureFixture[str], **sections: dict[str, object]) -> str:
    """What `config check` says to a file with these sections."""
    conf = folder / "ballast.yaml"
    conf.write_text(json.dumps({"tables": {"root": "t", "checkpoints": "c"}, **sections}))
    with pytest.raises(SystemExit) as ended:
        main(["config", "check", "--conf", str(conf)])
    said = "".join(capsys.readouterr())
    assert (ended.value.code, said.count("\n")) == (0 if said.startswith("ok") else 2, 1), said
    return said


def test_config_check_refuses_tls_files_that_no_kafka_client_could_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path, "--tls")
    authority.make()
    certificate, key = authority.issue("client")
    both = tmp_path / "client.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    (tmp_path / "empty.pem").touch()
    fine = {"security_protocol": "SSL", "ssl_cafile": str(authority.certificate), "ssl_certfile": str(both)}
    assert config_check(tmp_path, capsys, kafka={"client": fine}).startswith("ok")
    for wrong, told in (
        ({"ssl_cafile": "/nope.pem"}, "kafka.client.ssl_cafile = /nope.pem (file "),
        ({"ssl_cafile": "/nope.pem"}, "cannot be used: No such file or directory; give a PEM file with certificates"),
        ({"ssl_cafile": "empty.pem"}, f"kafka.client.ssl_cafile = {tmp_path}/empty.pem (file "),
        ({"ssl_certfile": str(certificate)}, "a certificate and its key, which ssl_password opens"),
    ):
        assert told in config_check(tmp_path, capsys, kafka={"client": fine | wrong})
    assert config_check(tmp_path, capsys, kafka={"client": {"ssl_cafile": "/nope.pem"}}).startswith("ok")  # not read


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"token_file": "/nope"}, "pulsar_cluster: token file /nope: No such file or directory"),
        ({"tls_ca_file": "/nope"}, "pulsar_cluster: TLS files /nope: No such file or directory"),
        ({"tls_cert_file": "/nope"}, "mutual TLS needs both"),
        ({"oauth2_key_file": "/nope"}, "pulsar_cluster: OAuth2 key file /nope: No such file or directory"),
    ],
)
def test_config_check_refuses_files_that_no_pulsar_agent_could_use(
    section: dict[str, object], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in config_check(tmp_path, capsys, pulsar_cluster={"service_urls": ["http://h:8080"], **section})


def test_a_place_that_only_trying_shows_to_be_none(tmp_path: Path) -> None:
    """/proc is a folder that says it can be written to."""
    place = "/proc/none/ck"
    assert refusal(settings_of(tmp_path, **{"tables.checkpoints": place})).startswith(f"tables.checkpoints = {place}")
    assert refusal(settings_of(tmp_path), place).startswith(f"--checkpoint = {place} cannot be used")
    check_job(settings_of(tmp_path, **{"tables.checkpoints": str(tmp_path / "a" / "b")}))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_there_and_cannot_be_written_to_may_be_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the tables was read-only for seconds while the job started: it must not stay down for that."""
    tables = tmp_path / "tables"
    tables.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tables)
    settings = settings_of(tmp_path, **{"tables.root": str(tables)})
    with pytest.raises(StoreError, match="cannot be written to now; is its disk read-only") as locked:
        check_job(settings)
    assert exit_code(locked.value) == EXIT_FAILED


def test_two_that_start_at_once_do_not_stumble_over_each_other(tmp_path: Path) -> None:
    """One found the folder that the other had just made by looking, gone a moment later: "cannot be written to now"."""
    place = str(tmp_path / "a" / "tables")
    with ThreadPoolExecutor(4) as starts:
        looks = [starts.submit(check_folder, place, "tables.root", "") for _ in range(1_000)]
    assert [look.exception() for look in looks if look.exception()] == []
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_places_that_are_not_ones_own(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    place = f"{tmp_path}/locked/tables"
    assert "locked cannot be written to" in refusal(settings_of(tmp_path, **{"tables.root": place}))


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = refusal(settings_of(tmp_path, **{"http.job_port": port}))
    assert told.startswith(f"http.job_port = {port} (override): 127.0.0.1:{port} cannot be listened on")
    assert told.endswith("give another port, or 0 for a free one")


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    told = refusal(settings_of(tmp_path, **{"http.bind_host": "192.0.2.1"}))
    assert told.startswith("http.bind_host = 192.0.2.1 (override)")


def test_the_command_looks_at_what_the_job_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    conf = tmp_path / "ballast.yaml"
    conf.write_text("tables: {root: file}")
    for arguments in (
        ["--only", "loads", "--conf", str(conf)],
        [f"--set=tables.root={file}", "--take-over"],
        ["--checkpoint", str(file), "--set", f"tables.root={tmp_path}/x"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", *arguments])
        assert ended.value.code == 2
        assert "is a file" in capsys.readouterr().err


def test_what_needs_no_kafka_is_named_before_kafka_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*more: str) -> str:
        kept = ("--set", f"tables.root={tmp_path}/t", "--set", f"tables.checkpoints={tmp_path}/c")
        with pytest.raises(SystemExit) as ended:
            main(["run", *kept, "--set", "kafka.bootstrap_servers=nowhere.invalid:9092", *more])
        assert ended.value.code == 2
        err = capsys.readouterr().err
        assert "Kafka" not in err
        return err

    (tmp_path / "file").touch()
    assert told("--spark-conf", str(tmp_path / "no.conf")) == (
        f"ballast run: --spark-conf {tmp_path}/no.conf does not exist: give a Spark properties file\n"
    )
    assert told("--pid-file", str(tmp_path)) == (
        f"ballast run: --pid-file = {tmp_path} cannot be used: it is a folder; give a file that can be written\n"
    )
    assert f"the folder of --pid-file = {tmp_path}/file cannot be used" in told("--pid-file", f"{tmp_path}/file/pid")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("controller.process.setup_java.find_java.__defaults__", (None, ()))  # no Java elsewhere
    assert f"JAVA_HOME {tmp_path}: {tmp_path}/bin/java does not exist" in told()


@pytest.mark.parametrize("words", [["--only", "nonsense"], ["--foo"], ["--set"]])
def test_options_that_the_job_has_not_start_no_jvm(
    words: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.execve", lambda *given: pytest.fail("a JVM would start"))
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert line.startswith("ballast run: ")
    assert words[0] in line


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u"}
PASSWORD = "mark-71b0"


def run_refused(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str, *more: str
) -> str:
    """The one line of `ballast run` without its Kafka; nothing was started."""
    monkeypatch.setattr("os.execve", lambda *given: pytest.fail("a JVM would start"))
    monkeypatch.setattr("controller.bus.cluster.check_answers.__defaults__", (NO_SETTINGS, 300))
    given = [f"tables.root={folder}/t", f"tables.checkpoints={folder}/c", f"kafka.bootstrap_servers={address}"]
    with pytest.raises(SystemExit) as ended:
        main(["run", *more, *(word for pair in given for word in ("--set", pair))])
    out, err = capfd.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (1, "", 1)
    assert address in err
    return err


def test_a_job_without_a_kafka_is_refused_before_its_jvm(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:  # nobody listens, and nobody else will
        bound.bind(("127.0.0.1", 0))
        assert "refused" in run_refused(tmp_path, capfd, monkeypatch, f"127.0.0.1:{bound.getsockname()[1]}")
    assert "no Kafka answers" in run_refused(tmp_path, capfd, monkeypatch, "nowhere.invalid:9092")


def test_a_login_where_none_is_spoken_is_one_line_without_its_password(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "ballast.yaml"
    conf.write_text(json.dumps({"kafka": {"client": LOGIN | {"sasl_plain_password": PASSWORD}}}))
    conf.chmod(0o600)
    with hanging_up() as address:
        told = run_refused(tmp_path, capfd, monkeypatch, address, "--conf", str(conf))
    assert "does it speak SASL_PLAINTEXT there" in told
    assert PASSWORD not in told
    assert told.count("KafkaTimeoutError") == 1


def test_the_client_librarys_own_words_are_not_heard(capfd: pytest.CaptureFixture[str]) -> None:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    before = [logging.getLogger(name).level for name in NOISY_LOGGERS]
    configure_logs("info", False)
    try:
        with hanging_up() as address, pytest.raises(KafkaUnavailable, match="no Kafka answers"):
            check_answers(address, LOGIN | {"sasl_plain_password": PASSWORD}, 300)
    finally:
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
        structlog.reset_defaults()
    assert capfd.readouterr().err == ""
    assert [logging.getLogger(name).level for name in NOISY_LOGGERS] == before


def test_a_store_without_its_port_or_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["store", *more])
        assert ended.value.code == 2
        return capsys.readouterr().err

    file = tmp_path / "file"
    file.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert told("--data-dir", str(tmp_path / "d"), "--port", str(port)) == (
            f"ballast: --port = {port}: 127.0.0.1:{port} cannot be listened on (Address already in use); "
            "give another port, or 0 for a free one\n"
        )
        set_port = told("--data-dir", str(tmp_path / "d"), "--set", f"store.address=127.0.0.1:{port}")
        assert set_port.startswith(f"ballast: port = {port} (store.address, override): 127.0.0.1:{port} cannot")
    assert told("--data-dir", f"{file}/below") == (
        f"ballast: --data-dir = {file}/below cannot be used: {file} is a file; give a folder that can be written to\n"
    )


def test_a_local_kafka_whose_port_is_taken_leaves_its_folder_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            main(["kafka", "up", "--dir", str(tmp_path / "k"), "--port", str(port)])
    assert ended.value.code == 1, "the port may be free the next time"
    assert capsys.readouterr().err == (
        f"ballast kafka: --port {port}: 127.0.0.1:{port} cannot be listened on (Address already in use); "
        "give another --port\n"
    )
    assert os.listdir(tmp_path) == []


def test_an_agent_whose_port_for_clients_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            main(["agent", "--broker-id", "b", "--data-port", str(port), "--set", "http.agent_port=0"])
    assert ended.value.code == 2
    assert f"ballast agent: --data-port = {port}: 127.0.0.1:{port} cannot be listened on" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["kafka.bootstrap_servers", "store.address"])
def test_a_port_beyond_all_ports(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key} = 127.0.0.1:99999 .*port up to 65535"):
        settings_of(tmp_path, **{key: "127.0.0.1:99999"})
