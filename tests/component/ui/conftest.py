"""The tables of a short run, and the page on them, without a browser and without Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from controller.config.settings import Settings
from controller.operations.liveness import Heard
from controller.process.http import HttpServer
from controller.testbed.demo.pictures import find_chromium
from controller.ui.heard import Listening
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import make_page_app
from tests.short_run import ShortRun, play


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """The story of a short run, told once for all tests that only read."""
    return play(tmp_path_factory.mktemp("ui") / "tables")


@pytest.fixture(scope="session")
def page(run: ShortRun) -> Page:
    """A page that has read the run's tables; nothing polls unless a test does."""
    page = Page(run.settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    page.cluster.poll()
    page.cluster.warm()
    return page


@pytest.fixture
def client(page: Page) -> Iterator[TestClient]:
    """A program on this machine that asks the page."""
    with TestClient(make_page_app(page), base_url="http://127.0.0.1:8180") as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The distribution's Chromium. Skips where it is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


def token_file(folder: Path, *lines: str) -> Path:
    """A file of people, as `--token-file` takes it."""
    file = folder / "people"
    file.write_text("".join(f"{line}\n" for line in lines))
    file.chmod(0o600)
    return file


@contextmanager
def served_page(settings: Settings, listen: Callable[[], Heard | None] | None = None) -> Iterator[tuple[Page, str]]:
    """A page that follows these tables, and its address, over real connections. `listen`: to the controller."""
    page = Page(settings, Rules(hosts_of("127.0.0.1", ())), ask_kafka=False)
    if listen is not None:
        page.listening = Listening(settings, listen=listen)
    with serving(page) as address:
        yield page, address


@contextmanager
def serving(page: Page) -> Iterator[str]:
    """The address of this page, which follows its tables."""
    server, loop = HttpServer("127.0.0.1"), asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(server.start, make_page_app(page))
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    page.start()
    yield server.url
    page.following.stop()
    page.listening.stop()
    loop.call_soon_threadsafe(page.hub.close)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()
