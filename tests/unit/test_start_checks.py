"""What would hinder a start is one line before anything is started."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.ops.cmd_job import check_before
from controller.ops.start_checks import check_job


def settings_of(folder: Path, **more: str) -> Settings:
    given = {"tables.root": str(folder / "tables"), "tables.checkpoints": str(folder / "checkpoints"), **more}
    return load_settings(None, overrides=[f"{key}={value}" for key, value in given.items()], env={})


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
    assert "too long" in refusal(settings_of(tmp_path, **{"tables.root": f"/tmp/{'x' * 300}"}))


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


def test_the_command_looks_at_what_the_job_is_given(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    conf = tmp_path / "ballast.yaml"
    conf.write_text("tables: {root: file}")
    for arguments in (
        ["--only", "loads", "--conf", str(conf)],
        [f"--set=tables.root={file}", "--take-over"],
        ["--checkpoint", str(file), "--set", f"tables.root={tmp_path}/x"],
    ):
        with pytest.raises(ConfigError, match="is a file"):
            check_before(arguments)
