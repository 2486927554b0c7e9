"""What `tables.storage_options` may hold: no credential, and nothing that lets two controllers write one journal."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.domain.errors import ConfigError, without_login

_CREDENTIAL = re.compile(
    r"secret|passw|token|credential|access_key|(account|private|api|storage|customer)_key|(^|_)sas(_|$)", re.IGNORECASE
)
# Where a credential is, or whether one is looked for, but no credential.
_HOLDS_NONE = ("_file", "_path", "_endpoint", "_uri", "_url", "_force_credential_load")
_UNSAFE = re.compile(r"allow_unsafe_rename$|conditional_put$|copy_if_not_exists$", re.IGNORECASE)
SAFE_PUT = "etag"
# The names that delta-rs takes, in any case; from the environment only those with the prefix.
_ENDPOINT = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
_ALLOW_HTTP = ("aws_allow_http", "allow_http")
_TRUE = ("1", "true", "on", "yes", "y")
_AWS_WITHOUT_PREFIX = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")  # delta-rs takes these options, too


def where_credentials_go(option: str) -> str:
    """What to do instead of giving a credential as an option."""
    variable = option.upper()
    if variable in _AWS_WITHOUT_PREFIX:
        variable = f"AWS_{variable}"
    if variable.startswith("AWS_"):
        return f"give it in the environment, as {variable}, or by the credentials file or the machine's role"
    return f"give it in the environment, as {variable}"


def check_storage_options(options: Mapping[str, str], origin: str) -> None:
    """Raise ConfigError, without the value, for an option that does not belong into a configuration."""
    for name, value in options.items():
        if _CREDENTIAL.search(name) and not name.lower().endswith(_HOLDS_NONE):
            raise ConfigError(
                f"tables.storage_options.{name} ({origin}) is a credential, and configurations are shown and stored:"
                f" {where_credentials_go(name)}"
            )
        if without_login(value) != value:
            raise ConfigError(
                f"tables.storage_options.{name} ({origin}) has a login in its address, and configurations are shown and"
                f" stored: give it as {without_login(value).replace('***@', '')}; credentials come from the environment"
            )
        if _UNSAFE.search(name) and value.lower() != SAFE_PUT:
            raise ConfigError(
                f"tables.storage_options.{name} = {value} ({origin}) would let two controllers write the same journal:"
                " leave it out"
            )


def check_plain_http(options: Mapping[str, str], environment: Mapping[str, str], origin: str) -> None:
    """Raise ConfigError for an endpoint of S3 without TLS that nobody allowed: delta-rs would refuse each request."""
    given = {name.lower(): value for name, value in options.items()}
    prefixed = {name.lower(): value for name, value in environment.items() if name.lower().startswith("aws_")}
    if any({**prefixed, **given}.get(name, "").lower() in _TRUE for name in _ALLOW_HTTP):
        return
    known = given if any(name in given for name in _ENDPOINT) else prefixed
    for name in _ENDPOINT:
        if known.get(name, "").lower().startswith("http://"):
            inherited = f"{name.upper()} (environment)"
            where = inherited if known is prefixed else f"tables.storage_options.{name} ({origin})"
            raise ConfigError(
                f"{where} = {without_login(known[name])} has no TLS: give an https:// address, or add"
                " aws_allow_http: 'true' to tables.storage_options"
            )
