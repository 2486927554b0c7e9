"""The file of tokens: what counts as one, that it follows the file, and that nobody learns a token from us."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.process.access.access import HttpAccess
from controller.process.access.tokens import TokenFile

SECRET = "s3cr3t-5f1c"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "http.tok"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "content", [None, b"", b" \n\n", b"two words", b"\xff\xfe", f"{SECRET}\nand so on".encode(), b"x" * 70_000]
)
def test_a_file_without_a_usable_token_stops_the_start(content: bytes | None, file: Path) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"http\.token_file = .*http\.tok cannot be used: .*; put a token") as told:
        TokenFile(file, f"http.token_file = {file}")
    assert SECRET not in str(told.value)
    assert "\n" not in str(told.value)


def test_tokens_follow_the_file_and_several_are_accepted(file: Path) -> None:
    tokens = TokenFile(file)
    assert tokens.accepts(SECRET.encode())
    assert not any(tokens.accepts(wrong) for wrong in (b"", b"x", SECRET[:-1].encode(), b"\xff"))
    file.write_text(f"{SECRET}\nnext\n")  # step 1 of a replacement: servers accept both
    assert (tokens.accepts(b"next"), tokens.header()) == (True, f"Bearer {SECRET}")
    file.write_text(f"next\n{SECRET}\n")  # step 2: clients send the new one
    assert (tokens.accepts(SECRET.encode()), tokens.header()) == (True, "Bearer next")
    file.write_text("next\n")
    assert not tokens.accepts(SECRET.encode())


@pytest.mark.parametrize("how", ["gone", "empty", "unreadable"])
def test_a_file_that_vanishes_keeps_the_last_token_and_warns_once(
    how: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(file)

    def vanish() -> None:
        file.unlink()
        if how != "gone":
            file.write_text("" if how == "empty" else f"{SECRET} {SECRET}")

    for times in (1, 2):
        vanish()
        assert all(tokens.accepts(SECRET.encode()) for _ in range(3))
        assert len(caplog.records) == times, "once for each time that it vanishes"
        file.write_text(f"{SECRET}\n")
        assert tokens.accepts(SECRET.encode())
    assert "the last token stays in use" in caplog.text
    assert SECRET not in caplog.text


def test_a_file_that_others_can_read_gets_one_line(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = TokenFile(file)
    tokens.warn_if_shared()
    assert caplog.records == []
    for mode in (0o640, 0o604):
        file.chmod(mode)
        caplog.clear()
        tokens.warn_if_shared()
        (line,) = caplog.records
        assert line.levelno == logging.WARNING
        assert line.getMessage().endswith(f"can be read by others than its owner: chmod 600 {file}")


def test_tokens_are_compared_in_constant_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"{SECRET}\nnext\n")
    tokens = TokenFile(file)
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return constant_time(given, token)

    constant_time = hmac.compare_digest
    monkeypatch.setattr("hmac.compare_digest", compare)
    assert tokens.accepts(SECRET.encode())
    assert compared == [(SECRET.encode(), SECRET.encode()), (SECRET.encode(), b"next")], "each, also after a match"


def test_no_token_in_a_repr(file: Path) -> None:
    assert SECRET not in repr(HttpAccess(tokens=TokenFile(file)))
