"""Web addresses of Pulsar brokers and service URLs: their form, and when two are the same."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from controller.domain.errors import ConfigError

_PORTS = {"http": 80, "https": 443}


def check_web_address(url: str) -> str:
    """`scheme://host:port` of an address, with its port spelled out and without a slash at the end.

    Raises ConfigError for what is no address, and for one with credentials, a path or a query.
    """
    shown = url.rsplit("@", 1)[-1]
    example = "give an address such as http://broker-1:8080 or https://pulsar:8443"
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"service URL {shown}: {error}; {example}") from None
    if parts.scheme in ("pulsar", "pulsar+ssl"):
        raise ConfigError(f"service URL {shown} is that of the binary protocol: {example}, Pulsar's web service")
    if parts.scheme not in _PORTS or not host:
        raise ConfigError(f"service URL {shown} is no web address: {example}")
    if "@" in parts.netloc:
        raise ConfigError(f"service URL {shown} has a user or password in it: give a token file instead")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(f"service URL {shown} has a path: give {parts.scheme}://{parts.netloc}")
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}:{port or _PORTS[parts.scheme]}"


def origin_of(url: str) -> str | None:
    """`scheme://host:port` of a URL with a path, or None if it is no web address."""
    try:
        parts = urlsplit(url)
        return check_web_address(f"{parts.scheme}://{parts.netloc}")
    except (ValueError, ConfigError):
        return None


def join_location(url: str, location: str) -> str:
    """The Location of an answer to `url`; itself if it is no address at all, which is refused as such."""
    try:
        return urljoin(url, location)
    except ValueError:
        return location
