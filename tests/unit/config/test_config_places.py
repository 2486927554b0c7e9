"""Where paths lead does not depend on the folder where one stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.config.places import check_old_place
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.reading import no_tables
from controller.process import paths
from controller.process.paths import home, resolve_location, shipped

ROOT = Path(__file__).resolve().parents[3]
ADDRESSES = ("s3://bucket/ballast", "abfss://c@a.dfs.core.windows.net/x", "file:/x/y", "hdfs://n/x", "/data/tables")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one stands."""
    folder = tmp_path / "else where"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, text: str, name: str = "ballast.yaml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_paths_of_a_file_belong_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "my site, ältest"
    tables, client = "{root: data/tables, checkpoints: ../check points}", "{ssl_cafile: ca.pem}"
    path = write(site, f"tables: {tables}\nkafka: {{client: {client}}}")
    settings = load_settings(path, env={})
    assert settings.tables.root == str(site / "data/tables")
    assert Path(settings.tables.checkpoints).resolve() == tmp_path.resolve() / "check points"
    assert settings.kafka.client["ssl_cafile"] == str(site / "ca.pem")
    monkeypatch.chdir(tmp_path)
    assert load_settings(Path("my site, ältest/ballast.yaml"), env={}).tables == settings.tables


def test_without_a_file_paths_belong_to_the_checkout(tmp_path: Path) -> None:
    assert load_settings(None, env={}).tables.root == str(ROOT / "run" / "tables")
    settings = load_settings(write(tmp_path, "rounds: {mode: live}"), env={})
    assert settings.tables.checkpoints == str(ROOT / "run" / "checkpoints")
    assert settings.origin("tables.checkpoints") == "default"


def test_a_profile_of_ones_own_is_a_file_as_well(tmp_path: Path) -> None:
    write(tmp_path / "profiles", "tables: {root: near}", "mine.yaml")
    assert load_settings(write(tmp_path, "profile: mine"), env={}).tables.root == str(tmp_path / "profiles" / "near")


def test_home_is_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home({}) == ROOT
    assert home({"BALLAST_HOME": str(tmp_path)}) == tmp_path
    assert home({"BALLAST_HOME": "~/b"}) == Path.home() / "b"
    with pytest.raises(ConfigError, match="BALLAST_HOME = here is relative to nothing"):
        home({"BALLAST_HOME": "here"})
    monkeypatch.setattr(paths, "CODE", tmp_path)  # installed elsewhere: no conf/profiles beside it
    assert home({}) == Path.home() / ".ballast"


def test_what_is_shipped_is_in_the_checkout_or_in_the_package_unless_the_home_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shipped(tmp_path / "home") == ROOT
    monkeypatch.setattr(paths, "CODE", tmp_path / "site-packages")
    monkeypatch.setattr(paths, "PACKAGED", tmp_path / "site-packages" / "controller" / "shipped")
    assert shipped(tmp_path / "home") == tmp_path / "site-packages" / "controller" / "shipped"
    with pytest.raises(ConfigError, match=r"no profiles in .*controller/shipped/conf/profiles: set BALLAST_HOME"):
        load_settings(None, env={"BALLAST_HOME": str(tmp_path / "home")})
    (tmp_path / "home" / "conf" / "profiles").mkdir(parents=True)
    assert shipped(tmp_path / "home") == tmp_path / "home"


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses_and_absolute_paths_stay(text: str, tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, f"tables: {{root: '{text}'}}"), env={}).tables.root == text
    assert load_settings(None, env={"BALLAST_TABLES__ROOT": text}).tables.root == text
    assert load_settings(None, overrides=[f"tables.root={text}"], env={}).tables.root == text


def test_a_tilde_is_the_users_home(tmp_path: Path) -> None:
    expected = str(Path.home() / "tables")
    assert load_settings(write(tmp_path, "tables: {root: ~/tables}"), env={}).tables.root == expected
    assert load_settings(None, overrides=["tables.root=~/tables"], env={}).tables.root == expected
    with pytest.raises(ConfigError, match="no such user"):
        resolve_location("~nobody-of-that-name/x", tmp_path)


def test_relative_paths_of_no_place_are_refused(elsewhere: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, env={"BALLAST_TABLES__ROOT": "run/tables"})
    text = str(caught.value)
    assert "BALLAST_TABLES__ROOT: tables.root = run/tables is relative" in text
    assert str(elsewhere / "run/tables") in text
    assert "\n" not in text
    for refused in ("tables.checkpoints=x", "kafka.client.ssl_certfile=./client.pem", "tables.root=.."):
        with pytest.raises(ConfigError, match="is relative to nothing: give /"):
            load_settings(None, overrides=[refused], env={})
    with pytest.raises(ConfigError, match=r"BALLAST_CONF = site\.yaml is relative to nothing: give /.*/site\.yaml"):
        load_settings(None, env={"BALLAST_CONF": "site.yaml"})


def test_tables_at_the_old_place_are_not_left_behind(tmp_path: Path, elsewhere: Path) -> None:
    settings = load_settings(None, env={"BALLAST_HOME": str(_home(tmp_path))})
    check_old_place(settings)  # a new user
    (elsewhere / "run/tables/journal/_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        check_old_place(settings)
    for place in (elsewhere / "run/tables", tmp_path / "home/run/tables"):
        assert str(place) in str(caught.value)
    check_old_place(load_settings(None, overrides=[f"tables.root={elsewhere}/run/tables"], env={}))
    (tmp_path / "home/run/tables/journal/_delta_log").mkdir(parents=True)
    check_old_place(settings)  # the new place has one: that one counts


def test_the_old_place_of_a_file_is_looked_at_as_well(tmp_path: Path, elsewhere: Path) -> None:
    settings = load_settings(write(tmp_path / "site", "tables: {root: data}"), env={})
    (elsewhere / "data/journal/_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"was .*else where/data up to 0\.1\.0, where one is"):
        check_old_place(settings)


@pytest.mark.parametrize("journal_id", ["", "ours"])
def test_a_journal_in_the_working_directory_counts_only_if_0_1_0_wrote_it(
    journal_id: str, tmp_path: Path, elsewhere: Path
) -> None:
    """Two clusters may both have `root: tables`, each beside its own file."""
    settings = load_settings(write(tmp_path / "site", "tables: {root: data}"), env={})
    root = TableRoot(elsewhere / "data")
    root.create_all()
    data = {"journal_id": journal_id} if journal_id else {"version": "0.1.0"}
    Journal(root).commit([Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0, data=data)], "i", 0)
    if journal_id:
        check_old_place(settings)
        return
    with pytest.raises(ConfigError) as caught:
        check_old_place(settings)
    assert f"if it is this cluster's, give tables.root = {elsewhere}/data" in str(caught.value)
    assert "start in another folder" in str(caught.value)
    assert "move" not in str(caught.value)


def _home(tmp_path: Path) -> Path:
    """A home of its own with the shipped profiles."""
    folder = tmp_path / "home"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "profiles").symlink_to(ROOT / "conf" / "profiles")
    return folder


def test_a_place_has_one_name(tmp_path: Path) -> None:
    """`..` leads beyond a link, as the file system has it, and is gone from what is shown and compared."""
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    given = f"{tmp_path}/link/../tables"
    expected = str(tmp_path.resolve() / "far" / "tables")
    assert load_settings(None, overrides=[f"tables.root={given}"], env={}).tables.root == expected
    assert load_settings(write(tmp_path / "a", "tables: {root: ../far/tables}"), env={}).tables.root == expected
    assert load_settings(None, env={"BALLAST_TABLES__ROOT": "s3://bucket/a/../b"}).tables.root == "s3://bucket/a/../b"


def test_a_relative_path_is_one_also_where_it_leads_above_the_root() -> None:
    with pytest.raises(ConfigError, match=r"tables.root = ../../../tables is relative to nothing: give /\S"):
        load_settings(None, overrides=["tables.root=../../../tables"], env={})


def test_credentials_in_an_address_are_not_shown(tmp_path: Path) -> None:
    address = "s3a://AKIA4711:hun/ter2@bucket/ballast"
    settings = load_settings(write(tmp_path, f"tables: {{root: '{address}'}}"), env={})
    assert settings.tables.root == address
    assert settings.dump()["tables.root"]["value"] == "s3a://***@bucket/ballast"
    assert "hun/ter2" not in load_settings(None, overrides=[f"tables.root={address}"], env={}).description
    twice = write(tmp_path, f"kafka: {{bootstrap_servers: '{address}'}}", "wrong.yaml")
    with pytest.raises(ConfigError, match=r"s3a://\*\*\*@bucket/ballast") as caught:
        load_settings(twice, env={})
    assert "hun/ter2" not in str(caught.value)
    assert "hun/ter2" not in str(no_tables(address))
    assert "abfss://c@a.dfs.core.windows.net/x" in str(no_tables("abfss://c@a.dfs.core.windows.net/x"))
