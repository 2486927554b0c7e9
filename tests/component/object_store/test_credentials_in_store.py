"""Where delta-rs finds the keys of a store if no variable holds them: what docs/operations.md promises."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
import yaml

from controller.config.load import load_settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.ledger.journal_commit import Journal
from tests.component.object_store.conftest import CREDENTIALS, Store
from tests.component.object_store.machine_role import ROLE_KEY
from tests.component.object_store.server import BUCKET

FILE_KEY = "AKIAOFTHEFILE"
FILE = f"""
[default]
aws_access_key_id = AKIAOFNOBODY
aws_secret_access_key = another
[lake]
aws_access_key_id = {FILE_KEY}
aws_secret_access_key = secret-of-the-file
"""


@pytest.fixture
def without_keys(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """No keys in the environment, and a metadata service on loopback, so that no other is asked."""
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, store.address)
    return store


@pytest.fixture
def file(without_keys: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credentials file beside the role, and the profile that counts."""
    (tmp_path / "credentials").write_text(FILE)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "lake")


def keys_used(store: Store, folder: Path, **options: str) -> set[str]:
    """By which keys the store was asked while a journal was made, written and read with these storage options."""
    tables = {"root": f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}", "storage_options": {"aws_allow_http": "true", **options}}
    conf = folder / "ballast.yaml"
    conf.write_text(yaml.safe_dump({"tables": tables}))
    root, before = table_root(load_settings(conf, env={})), store.access_keys()
    root.create("journal")
    entry = Entry(1, Kind.ALARM, "one", 1, 1_000, reason="test")
    Journal(root).commit([entry], "one", 1)
    assert Journal(root.again()).read_since(0) == [entry]
    return set(store.access_keys() - before)


@pytest.mark.usefixtures("file")
def test_a_credentials_file_gives_the_keys_of_the_profile(
    without_keys: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of AWS itself, here at another address, which no option tells."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", without_keys.address)
    assert keys_used(without_keys, tmp_path, aws_region="us-east-1") == {FILE_KEY}


@pytest.mark.usefixtures("file")
def test_beside_an_endpoint_the_file_is_read_only_where_an_option_says_so(without_keys: Store, tmp_path: Path) -> None:
    options = {"aws_endpoint": without_keys.address, "aws_region": "us-east-1"}
    assert keys_used(without_keys, tmp_path, **options) == {ROLE_KEY}
    assert keys_used(without_keys, tmp_path, **options, aws_force_credential_load="true") == {FILE_KEY}


def test_the_machines_role_gives_its_keys(without_keys: Store, tmp_path: Path) -> None:
    options = {"aws_endpoint": without_keys.address, "aws_region": "us-east-1"}
    assert keys_used(without_keys, tmp_path, **options) == {ROLE_KEY}
