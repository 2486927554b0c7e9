"""A table store that is away: its errors are known by their text, which is that of delta-rs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from deltalake import DeltaTable

from controller.config.settings import Settings
from controller.ledger.store.away import is_of_store, is_store_away
from controller.ledger.tables import TableRoot
from controller.operations import reading
from controller.operations.reading import Reader
from tests.component.object_store.conftest import Store

SOON = {"max_retries": "1", "retry_timeout": "2s", "timeout": "1s"}


def error_of(root: TableRoot, address: str = "") -> Exception:
    """What opening a table says."""
    options = {**root.storage_options, **SOON, "aws_region": "us-east-1"}
    if address:
        options["aws_endpoint"] = address
    with pytest.raises(Exception, match=r"Generic|table|bucket|error") as raised:
        DeltaTable(f"{root.root}/journal", storage_options=options)
    return raised.value


def test_one_that_refuses_connections_is_away(root: TableRoot) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        error = error_of(root, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert is_store_away(error), str(error)


def test_one_that_never_answers_is_away(root: TableRoot) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        error = error_of(root, f"http://127.0.0.1:{mute.getsockname()[1]}")
    assert is_store_away(error), str(error)


def test_who_reads_is_told_that_it_does_not_answer(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reading, "SILENT_S", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        options = {**root.storage_options, **SOON, "aws_endpoint": f"http://127.0.0.1:{mute.getsockname()[1]}"}
        settings = Settings.model_validate({"tables": {"root": root.root, "storage_options": options}})
        with pytest.raises(OSError, match="timed out"):
            Reader(settings)
    assert f"the table store of {root.root} does not answer yet" in caplog.text


def test_one_that_is_overloaded_is_away(root: TableRoot, store: Store) -> None:
    store.set(refuse=1_000)
    error = error_of(root)
    assert is_store_away(error), str(error)


def test_one_without_the_table_or_the_bucket_is_there(root: TableRoot) -> None:
    for lost in (root, TableRoot("s3://no-such-bucket/x", root.storage_options)):
        error = error_of(lost)
        assert is_of_store(error)
        assert not is_store_away(error), str(error)


def test_an_error_of_a_disk_is_none_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as raised:
        (tmp_path / "none").read_text()
    assert not is_of_store(raised.value)
    assert not is_store_away(raised.value)
