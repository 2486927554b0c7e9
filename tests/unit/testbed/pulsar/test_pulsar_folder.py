"""The folder of a local Pulsar cluster: one user at a time, and no foreign file is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.testbed.pulsar.folder import hold, make_parts, wipe
from controller.testbed.pulsar.spec import PulsarFailed, make_spec, write_spec


def test_two_users_at_once_are_refused(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(PulsarFailed, match=r"another process is starting or stopping the cluster"):
        hold(tmp_path).__enter__()
    with hold(tmp_path):
        pass


def test_a_folder_in_which_nothing_was_started_is_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()


def test_a_folder_with_a_cluster_stays(tmp_path: Path) -> None:
    with hold(tmp_path / "new"):
        write_spec(tmp_path / "new", make_spec(pulsar="4.0.8"))
    assert (tmp_path / "new" / "cluster.json").exists()


def test_wiping_leaves_foreign_files(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with hold(folder):
        make_parts(folder)
        write_spec(folder, make_spec(pulsar="4.0.8"))
        (folder / "notes.txt").write_text("mine")
        wipe(folder)
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    with hold(folder):
        wipe(folder)
    assert not folder.exists()
