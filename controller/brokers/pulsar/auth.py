"""Credentials for Pulsar: none, a token in a file, OAuth2 client credentials; and TLS.

Every file is read again when it changes: a token's before each call, those of OAuth2 before a token is fetched, TLS
files every few seconds. An OAuth2 token is kept until shortly before it expires, or until Pulsar refuses it. No secret
is in a message, a repr or a log line: errors name the file or the endpoint alone.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.domain.errors import BallastError, ConfigError, label
from controller.process.access.renewal import Renewal
from controller.process.access.tls import client_context, load_certificate, load_files
from controller.process.access.tokens import Stamp, is_token, read_words, stamp_of
from controller.process.clock import boot_ms

RENEW_BEFORE_MS = 60_000  # a token may be checked by a broker whose clock is ahead
ASSUMED_LIFE_S = 300  # of a token whose issuer does not say
_TIMEOUT_S = 10.0


class CredentialsMissing(BallastError):
    """Raised when a token cannot be had now; the next call tries again."""


class Credentials(Protocol):
    """What is sent with every call to an address that may have it."""

    async def headers(self) -> dict[str, str]:
        """Headers of the next call. Raises CredentialsMissing."""

    def forget(self) -> None:
        """Pulsar has refused them: do not use a cached token again."""


class NoCredentials:
    """For clusters without authentication, and for mutual TLS, where the connection itself is the credential."""

    async def headers(self) -> dict[str, str]:
        """None."""
        return {}

    def forget(self) -> None:
        """Nothing to forget."""


class TokenFile:
    """A token (JWT) in a file, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if there is no usable token now."""
        self._path = path
        self._stamp: Stamp | None = None
        self._token = ""
        try:
            self._read()
        except CredentialsMissing as error:
            raise ConfigError(str(error)) from None

    async def headers(self) -> dict[str, str]:
        """The bearer token."""
        self._read()
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        """Read the file again before the next call."""
        self._stamp = None

    def _read(self) -> None:
        try:
            stamp = stamp_of(self._path)
            if stamp != self._stamp:
                self._token = _secret_of(self._path)
                self._stamp = stamp
        except OSError as error:
            raise CredentialsMissing(f"token file {self._path}: {error.strerror}; give a readable file") from None


@dataclass(frozen=True, slots=True)
class _Client:
    """What tokens are asked for with. `form`: what the endpoint is sent."""

    issuer_url: str
    form: dict[str, str] = field(repr=False)
    tls: ssl.SSLContext


class OAuth2:
    """Client credentials: a token of the issuer's endpoint, fetched once for all calls that wait for it."""

    def __init__(self, settings: PulsarCluster) -> None:
        """Raises ConfigError for settings or files that are of no use now."""
        self._settings = settings
        files = (settings.oauth2_key_file, settings.oauth2_secret_file, settings.tls_ca_file)
        self._renewal = Renewal("OAuth2 credentials of pulsar_cluster", files, self._load)
        self._client, self._endpoint = _client_of(settings), ""
        self._token, self._until_ms = "", 0
        self._fetching = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """The bearer token, fetched if there is none or it is about to expire."""
        async with self._fetching:
            if boot_ms() >= self._until_ms:
                await self._fetch()
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        """Fetch another token before the next call."""
        self._until_ms = 0

    def _load(self) -> None:
        client = _client_of(self._settings)
        if client.issuer_url != self._client.issuer_url:
            self._endpoint = ""  # another issuer has another one
        self._client = client

    async def _fetch(self) -> None:
        self._renewal.look()
        client = self._client
        async with httpx.AsyncClient(verify=client.tls, timeout=_TIMEOUT_S) as http:
            self._endpoint = self._endpoint or await self._discover(http, client.issuer_url)
            document = await _call(http, "POST", self._endpoint, client.form)
        token, life_s = document.get("access_token"), document.get("expires_in", ASSUMED_LIFE_S)
        if not isinstance(token, str) or not is_token(token):
            raise CredentialsMissing(f"{self._endpoint} answered without a usable access_token; ask its operator")
        known = isinstance(life_s, int | float) and not isinstance(life_s, bool) and 0 < life_s < 1e9
        life_ms = round(life_s * 1000) if known else ASSUMED_LIFE_S * 1000
        self._token = token
        self._until_ms = boot_ms() + life_ms - min(RENEW_BEFORE_MS, life_ms // 2)

    async def _discover(self, http: httpx.AsyncClient, issuer: str) -> str:
        """The token endpoint by OpenID Connect discovery; it must not be less secure than the issuer."""
        url = f"{issuer}/.well-known/openid-configuration"
        found = (await _call(http, "GET", url)).get("token_endpoint")
        scheme = _scheme_of(found) if isinstance(found, str) else ""
        if scheme not in ("http", "https") or (scheme == "http" and issuer.startswith("https:")):
            raise CredentialsMissing(
                f"{_shown(url)} names no token_endpoint that is safe to use; is the issuer's URL right?"
            )
        return str(found)


def credentials_of(settings: PulsarCluster) -> Credentials:
    """What the settings name. Raises ConfigError for settings that contradict each other or cannot be read."""
    key_file, issuer = settings.oauth2_key_file, settings.oauth2_issuer_url
    oauth2 = [key_file, issuer, settings.oauth2_client_id, settings.oauth2_secret_file]
    if settings.token_file is not None:
        if any(oauth2):
            raise ConfigError("pulsar_cluster.token_file and OAuth2 are both given: keep one of them")
        return TokenFile(Path(settings.token_file))
    return OAuth2(settings) if any(oauth2) else NoCredentials()


def check_files(settings: PulsarCluster) -> None:
    """Raise ConfigError for credentials or TLS files that no connection could use now."""
    try:
        credentials_of(settings)
        tls_of(settings)
    except ConfigError as error:
        raise ConfigError(f"pulsar_cluster: {error}") from None


def _client_of(settings: PulsarCluster) -> _Client:
    """The OAuth2 client, as files and settings have it now. Raises ConfigError."""
    key_file, issuer = settings.oauth2_key_file, settings.oauth2_issuer_url
    named: dict[str, Any] = _read_key_file(Path(key_file)) if key_file else {}
    if settings.oauth2_secret_file:
        try:
            named["client_secret"] = _secret_of(Path(settings.oauth2_secret_file))
        except (OSError, CredentialsMissing) as error:
            raise ConfigError(f"pulsar_cluster.oauth2_secret_file: {error}") from None
    parts = {
        "oauth2_issuer_url": issuer or named.get("issuer_url"),
        "oauth2_client_id": settings.oauth2_client_id or named.get("client_id"),
        "oauth2_secret_file": named.get("client_secret"),
    }
    missing = [f"pulsar_cluster.{name}" for name, value in parts.items() if not isinstance(value, str) or not value]
    if missing:
        raise ConfigError(f"OAuth2 needs {' and '.join(missing)}, or a key file (oauth2_key_file) that has it")
    url, client_id, secret = map(str, parts.values())
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    form |= {"audience": settings.oauth2_audience} if settings.oauth2_audience else {}
    form |= {"scope": settings.oauth2_scope} if settings.oauth2_scope else {}
    tls = ssl.create_default_context()
    if settings.tls_ca_file:
        load_files(settings.tls_ca_file, lambda: tls.load_verify_locations(settings.tls_ca_file))
    return _Client(url.rstrip("/"), form, tls)


def tls_of(settings: PulsarCluster) -> ssl.SSLContext:
    """The context of connections to brokers; host names are always checked. Raises ConfigError."""
    if (settings.tls_cert_file is None) != (settings.tls_key_file is None):
        raise ConfigError("mutual TLS needs both pulsar_cluster.tls_cert_file and pulsar_cluster.tls_key_file")
    return client_context(settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file)


class BrokerTls:
    """Connections to brokers, with the files as they are now.

    `lasting` is one context for good, for clients that keep theirs: connections that are opened later show the renewed
    certificate. It changes, so only the event loop uses it: OpenSSL is not safe when a thread shakes hands meanwhile.
    `newest` never changes, but is replaced by another one; it may be used in threads, and forgets an old authority.
    """

    def __init__(self, settings: PulsarCluster) -> None:
        """Raises ConfigError."""
        self._settings = settings
        files = (settings.tls_ca_file, settings.tls_cert_file, settings.tls_key_file)
        self.renewal = Renewal("TLS files of pulsar_cluster", files, self._load)
        self.newest = tls_of(settings)
        self.lasting = tls_of(settings) if self.renewal else self.newest

    def _load(self) -> None:
        newest = tls_of(self._settings)  # tried first: a pair that does not fit would leave the other without a key
        authority, certificate, key = (
            self._settings.tls_ca_file, self._settings.tls_cert_file, self._settings.tls_key_file,
        )  # fmt: skip
        if authority is not None:
            load_files(authority, lambda: self.lasting.load_verify_locations(authority))
        if certificate is not None and key is not None:
            load_certificate(self.lasting, certificate, key)
        self.newest = newest


async def _call(http: httpx.AsyncClient, method: str, url: str, form: dict[str, str] | None = None) -> dict[str, Any]:
    endpoint = f"OAuth2 endpoint {_shown(url)}"
    try:
        answer = await http.request(method, url, data=form, headers={"Accept": "application/json"})
    except (httpx.InvalidURL, ValueError):  # or names that IDNA or UTF-8 cannot express
        raise CredentialsMissing(
            f"{endpoint} is no web address; correct pulsar_cluster.oauth2_issuer_url, or issuer_url in the key file"
        ) from None
    except (httpx.HTTPError, ssl.SSLError) as error:
        raise CredentialsMissing(f"{endpoint}: {type(error).__name__}; can it be reached?") from None
    if answer.status_code != 200:
        raise CredentialsMissing(f"{endpoint} answered HTTP {answer.status_code}; is the client known?")
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise CredentialsMissing(f"{endpoint} answered no JSON object; is the issuer's URL right?")
    return document


def _shown(url: str) -> str:
    """Within a message: without a user and password, which anybody may have put there."""
    return label(url.rsplit("@", 1)[-1])


def _scheme_of(url: str) -> str:
    """Empty for what httpx takes for no URL."""
    try:
        return httpx.URL(url).scheme
    except (httpx.InvalidURL, ValueError):
        return ""


def _read_key_file(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"OAuth2 key file {path}: {error.strerror}; give a readable file") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ConfigError(f"OAuth2 key file {path} is no JSON object with client_id and client_secret")
    return document


def _secret_of(path: Path) -> str:
    """The one word in a file. Raises OSError, or CredentialsMissing, which names the file alone."""
    try:
        (word,) = read_words(path)
    except ValueError:  # none, several, or no word
        raise CredentialsMissing(
            f"{path} does not hold one word of printable ASCII; put the token alone into it"
        ) from None
    return word
