"""`ballast init` writes rules and dashboards as they are shipped."""

from __future__ import annotations

from pathlib import Path

from controller.cli.run.init import starter_files
from tests.unit.observability.exposed import FOLDER


def test_init_copies_the_whole_folder() -> None:
    written = dict(starter_files(Path("/etc/ballast"), "cluster"))
    shipped = {f"observability/{file.relative_to(FOLDER).as_posix()}": file for file in FOLDER.rglob("*.*")}
    assert {name for name in written if name.startswith("observability/")} == set(shipped)
    assert all(written[name] == file.read_text(encoding="utf-8") for name, file in shipped.items())
    assert "observability/rules.yml" in written
