"""What an object store may be told by the configuration, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.main import main
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import ConfigError
from controller.service.start_checks import check_writers
from jobs import maintain_job


def loaded(*overrides: str) -> Settings:
    return load_settings(None, overrides=overrides, env={})


def test_the_tables_get_what_their_store_needs_to_know() -> None:
    settings = load_settings(
        None,
        overrides=("tables.root=s3://lake/ballast", "tables.storage_options.aws_region=eu-west-1"),
        env={"BALLAST_TABLES__STORAGE_OPTIONS": '{"aws_region": "eu-west-1"}'},
    )
    root = table_root(settings)
    assert (root.root, root.storage_options) == ("s3://lake/ballast", {"aws_region": "eu-west-1"})
    assert root.is_object_store
    assert root.again().storage_options == root.storage_options
    assert not table_root(load_settings(None, env={})).is_object_store


@pytest.mark.parametrize(
    "name",
    [
        "aws_secret_access_key",
        "aws_access_key_id",
        "aws_session_token",
        "aws_sse_customer_key_base64",
        "azure_storage_account_key",
        "sas_token",
        "sas",
    ],
)
def test_credentials_are_refused_with_the_place_for_them(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.upper()}") as caught:
        loaded(f"tables.storage_options={{{name}: abcdef}}")
    assert "abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("aws_secret_access_key", "as AWS_SECRET_ACCESS_KEY, or by the credentials file or the machine's role"),
        ("access_key_id", "as AWS_ACCESS_KEY_ID, or by the credentials file or the machine's role"),
        ("azure_storage_account_token", "as AZURE_STORAGE_ACCOUNT_TOKEN"),
    ],
)
def test_no_place_is_recommended_that_is_refused_as_well(option: str, instead: str) -> None:
    for override in (f"tables.storage_options.{option}=abcdef", f"tables.storage_options={{{option}: abcdef}}"):
        with pytest.raises(ConfigError) as caught:
            loaded(override)
        told = str(caught.value)
        assert told.endswith(f"give it in the environment, {instead}")
        assert not any(word in told for word in ("abcdef", "--conf", "BALLAST_"))
    with pytest.raises(ConfigError, match=r"give it in a file \(--conf\), or as environment variable BALLAST_KAFKA__"):
        loaded("kafka.client.sasl_plain_password=abcdef")


@pytest.mark.parametrize(
    "name",
    [
        "aws_web_identity_token_file",
        "aws_endpoint",
        "aws_force_credential_load",
        "google_service_account_path",
    ],
)
def test_the_place_of_a_credential_is_none(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ballast.yaml"
    file.write_text(f"tables: {{storage_options: {{{name}: /run/somewhere}}}}")
    assert load_settings(file, env={}).tables.storage_options == {name: "/run/somewhere"}


@pytest.mark.parametrize("name", ["proxy_url", "aws_endpoint"])
def test_a_login_in_an_address_is_refused_and_shown_nowhere(name: str, tmp_path: Path) -> None:
    file = tmp_path / "ballast.yaml"
    file.write_text(f"tables: {{storage_options: {{{name}: 'http://joe:sesame@proxy:3128'}}}}")
    with pytest.raises(ConfigError, match=rf"storage_options.{name} .* give it as http://proxy:3128") as caught:
        load_settings(file, env={})
    assert "sesame" not in str(caught.value)


def test_a_value_that_is_no_text_is_told_how_to_write_it(tmp_path: Path) -> None:
    file = tmp_path / "ballast.yaml"
    file.write_text("tables: {storage_options: {aws_allow_http: true}}")
    with pytest.raises(ConfigError, match="aws_allow_http: 'true'"):
        load_settings(file, env={})


@pytest.mark.parametrize("option", ["aws_s3_allow_unsafe_rename: 'true'", "aws_conditional_put: disabled"])
def test_what_would_let_two_controllers_write_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="two controllers"):
        loaded(f"tables.storage_options={{{option}}}")
    loaded("tables.storage_options={aws_conditional_put: etag}")


def test_spark_does_not_write_to_an_object_store() -> None:
    settings = load_settings(None, overrides=("tables.root=s3://lake/ballast", "loads.writer=spark"), env={})
    with pytest.raises(ConfigError, match=r"loads\.writer = spark .* is not allowed with tables\.root = s3://lake"):
        check_writers(settings)
    check_writers(load_settings(None, overrides=("tables.root=s3://lake/ballast",), env={}))
    check_writers(load_settings(None, overrides=("loads.writer=spark",), env={}))
    check_writers(load_settings(None, overrides=("tables.root=file:///lake/ballast", "loads.writer=spark"), env={}))


@pytest.mark.parametrize("program", ["ballast maintain --spark", "jobs/maintain.py"])
def test_spark_does_not_maintain_tables_in_an_object_store(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*given: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("os.execve", started)
    monkeypatch.setattr(maintain_job, "build_session", started)
    root = ["--set", "tables.root=s3://lake/ballast"]
    if program == "jobs/maintain.py":
        code: object = maintain_job.main(root)
    else:
        with pytest.raises(SystemExit) as ended:
            main([*program.split()[1:], *root])
        code = ended.value.code
    told = capsys.readouterr().err
    assert (code, told.count("\n")) == (2, 1)
    assert "Spark does not maintain tables in an object store (tables.root = s3://lake/" in told


def test_config_check_refuses_the_writer_that_a_start_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["config", "check", "--set", "tables.root=s3://lake/ballast", "--set", "loads.writer=spark"])
    assert (ended.value.code, "loads.writer = spark" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("options", ["aws_endpoint: 'http://store:9000'", "AWS_Endpoint_URL: 'HTTP://store:9000'"])
def test_an_endpoint_without_tls_must_be_allowed(
    options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store's library refuses each request to it, after its retries, and names no option."""
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)

    def checked(more: str) -> tuple[object, str]:
        given = ["--set", "tables.root=s3://lake/ballast", "--set", f"tables.storage_options={{{options}{more}}}"]
        try:
            main(["config", "check", *given])
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, ""

    code, told = checked("")
    assert (code, told.count("\n")) == (2, 1)
    assert "store:9000 has no TLS" in told
    assert "aws_allow_http: 'true'" in told
    assert checked(", aws_allow_http: 'true'")[0] in (0, None)
    assert checked(", ALLOW_HTTP: '1'")[0] in (0, None)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert checked("")[0] in (0, None)


def test_an_endpoint_of_the_environment_is_looked_at_for_s3_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://joe:sesame@store:9000")
    with pytest.raises(ConfigError, match=r"AWS_ENDPOINT_URL \(environment\) = http://\*\*\*@store:9000 has no TLS"):
        table_root(loaded("tables.root=s3://lake/ballast"))
    table_root(loaded("tables.root=s3://lake/ballast", "tables.storage_options={aws_endpoint: https://store}"))
    table_root(loaded("tables.root=/lake/ballast"))
