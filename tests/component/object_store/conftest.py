"""An S3 server for the tests of this folder, and its credentials in the environment."""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import boto3
import httpx
import pytest

from controller.ledger.tables import TableRoot
from controller.process.children import Child
from tests.component.object_store.server import BUCKET, CONTROL, SERVED, Faults

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTS",
    "AWS_SECRET_ACCESS_KEY": "verysecretkey",
    "AWS_REGION": "us-east-1",
}


class Store:
    """The server by its address."""

    def __init__(self, address: str, pid: int) -> None:
        self.address, self.pid = address, pid

    def set(self, **faults: object) -> None:
        """These faults, and no others, from now on."""
        httpx.put(f"{self.address}{CONTROL}", json=asdict(Faults(**faults))).raise_for_status()  # type: ignore[arg-type]

    def faults(self) -> Faults:
        """Those that are left."""
        return Faults(**httpx.get(f"{self.address}{CONTROL}").json())

    def requests(self) -> int:
        """How many it has answered so far."""
        return int(httpx.get(f"{self.address}{SERVED}").json()["requests"])

    def written(self) -> list[str]:
        """The path of each object that it has taken so far, whether it was removed again or not."""
        return list(httpx.get(f"{self.address}{SERVED}").json()["written"])

    def access_keys(self) -> Counter[str]:
        """How many requests each access key has signed so far."""
        return Counter(httpx.get(f"{self.address}{SERVED}").json()["access_keys"])

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Key and content of each object of the bucket."""
        client = boto3.client("s3", endpoint_url=self.address)
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for found in page.get("Contents", ()):
                yield found["Key"], client.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read()

    def listing(self) -> str:
        """What the bucket holds, as S3 lists it."""
        return httpx.get(f"{self.address}/{BUCKET}?list-type=2").text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A server with an empty bucket."""
    log = tmp_path_factory.mktemp("s3") / "server.log"
    child = Child("s3", [sys.executable, "-m", "tests.component.object_store.server"], log)
    try:
        port = child.wait_for_line("port ", 60.0).split()[-1]
        store = Store(f"http://127.0.0.1:{port}", child.pid)
        httpx.put(f"{store.address}/{BUCKET}").raise_for_status()
        yield store
    finally:
        child.kill()


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The server without faults, and its credentials where delta-rs looks for them."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    yield server
    server.set()


@pytest.fixture
def root(store: Store) -> TableRoot:
    """Tables of their own."""
    options = {"aws_endpoint": store.address, "aws_allow_http": "true"}
    return TableRoot(f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}", options)
