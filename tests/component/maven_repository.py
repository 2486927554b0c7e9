"""A Maven repository in a folder, and the Ivy settings that lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.process.setup_ivy import SETTINGS_VARIABLE
from controller.process.setup_lock import Coordinate


def publish(repository: Path, coordinate: Coordinate, content: bytes, needs: tuple[Coordinate, ...] = ()) -> None:
    """Puts an artifact with its description where Maven's layout has it."""
    folder = repository / coordinate.org.replace(".", "/") / coordinate.name / coordinate.version
    folder.mkdir(parents=True)
    (folder / coordinate.file_name).write_bytes(content)
    dependencies = "".join(
        f"<dependency><groupId>{c.org}</groupId><artifactId>{c.name}</artifactId><version>{c.version}</version></dependency>"
        for c in needs
    )
    (folder / f"{coordinate.name}-{coordinate.version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{coordinate.org}</groupId>"
        f"<artifactId>{coordinate.name}</artifactId><version>{coordinate.version}</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def point_ivy_to(root: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = folder / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="there"/><resolvers>'
        f'<ibiblio name="there" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings))
