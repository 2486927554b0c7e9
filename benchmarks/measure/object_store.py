"""The S3 server of the tests as a process of its own on loopback, for what is measured with tables in an object store.

Its own time is part of what clients see.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx

from controller.process.children import Child

SERVER, BUCKET = "tests.component.object_store.server", "lake"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The server with an empty bucket, and the credentials in the environment; its address."""
    os.environ.update(CREDENTIALS)
    child = Child("s3", [sys.executable, "-m", SERVER], folder / "s3.log")
    try:
        address = f"http://127.0.0.1:{child.wait_for_line('port ', 60).split()[-1]}"
        httpx.put(f"{address}/{BUCKET}").raise_for_status()
        yield address
    finally:
        child.kill()


def new_root() -> str:
    """An address for tables of their own."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}"


def storage_options(address: str) -> dict[str, str]:
    """What delta-rs needs to be told of the server."""
    return {"aws_endpoint": address, "aws_allow_http": "true"}
