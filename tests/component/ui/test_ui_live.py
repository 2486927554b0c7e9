"""Changes reach every open page within a second, from one reader, over a real connection."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.domain.entries import Kind
from controller.operations.page_address import find_page
from controller.ui.live import MOST_PAGES, Hub, TooManyPages
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.shared import Shared
from tests.component.ui.conftest import served_page
from tests.short_run import ShortRun

WITHIN_S = 1.0


@pytest.fixture
def run(tmp_path: Path) -> ShortRun:
    run = ShortRun(tmp_path / "tables")
    run.join("b1:8080")
    return run


@pytest.fixture
def served(run: ShortRun) -> Iterator[tuple[Page, str]]:
    """A page that follows its tables, and its address."""
    with served_page(run.settings) as served:
        yield served


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def news_of(run: ShortRun) -> int:
    """The newest entry that changes what anybody looks at."""
    return max(entry.seq for entry in run.entries if entry.kind is not Kind.OFFSETS)


def test_a_change_reaches_two_pages_within_a_second(run: ShortRun, served: tuple[Page, str]) -> None:
    page, url = served
    with httpx.Client(trust_env=False, timeout=10) as client, client.stream("GET", f"{url}/api/live") as one:
        assert one.headers["content-type"].startswith("text/event-stream")
        with client.stream("GET", f"{url}/api/live") as two:
            streams = [events(one), events(two)]
            first = [next(stream) for stream in streams]
            while first[0]["seq"] < news_of(run):
                first = [next(stream) for stream in streams]
            assert page.hub.watched
            began_s = time.monotonic()
            run.command("mode", mode="live")
            for stream in streams:
                while next(stream)["seq"] < news_of(run):
                    pass
            assert time.monotonic() - began_s < WITHIN_S
            assert client.get(f"{url}/api/now").json()["mode"] == "live"


def test_status_names_the_address_of_this_clusters_page(run: ShortRun, served: tuple[Page, str]) -> None:
    page, url = served
    while not page.cluster.versions.seq:
        time.sleep(0.05)
    there = run.settings.ui.model_copy(update={"port": int(url.rpartition(":")[2])})
    settings = run.settings.model_copy(update={"ui": there})
    tables = run.root.root
    assert find_page(settings, run.state.journal_id, tables) == f"{url}/"
    assert find_page(settings, "another-journal", tables) is None
    assert find_page(settings, run.state.journal_id, f"{tables}-captured") is None, "a slice has the journal's id, too"
    nobody = settings.model_copy(update={"ui": there.model_copy(update={"port": 1})})
    assert find_page(nobody, run.state.journal_id, tables) is None


def test_entries_that_only_say_how_far_kafka_was_read_wake_nobody(run: ShortRun) -> None:
    page = Page(run.settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    page.cluster.poll()
    before = page.cluster.versions
    run.panes(1)  # heartbeats, and new loads
    assert page.cluster.poll() == (page.cluster.versions != before)
    assert page.cluster.versions.evidence == before.evidence


def test_more_pages_than_allowed_are_refused() -> None:
    class Still:
        versions = type("V", (), {"_asdict": lambda self: {"seq": 1}})()

    async def open_them() -> None:
        hub = Hub(Still())  # type: ignore[arg-type]
        streams = [hub.follow() for _ in range(MOST_PAGES)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(TooManyPages):
            await anext(hub.follow())
        await streams[0].aclose()
        await anext(hub.follow())

    asyncio.run(open_them())


def test_a_document_is_made_once_for_all_who_ask_at_once() -> None:
    shared, made = Shared(), []

    def make() -> bytes:
        made.append(1)
        time.sleep(0.05)
        return b"%d" % len(made)

    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(shared.get("now", 7, make))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(made)) == ([b"1"] * 8, 1)
    assert shared.get("now", 8, make) == b"2"


def test_a_document_that_could_not_be_made_is_made_by_the_next() -> None:
    shared = Shared()

    def fail() -> bytes:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        shared.get("now", 1, fail)
    assert shared.get("now", 1, lambda: b"there") == b"there"
