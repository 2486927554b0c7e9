"""Files with certificates or secrets that are renewed on disk are used without a restart.

While they are of no use, as between the writing of a certificate and of its key, what was read last stays in use. A
context can learn of another authority, but cannot forget one; so a server reads that of its clients at start only.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from controller.domain.errors import ConfigError
from controller.process.access.tls import TlsFiles, load_certificate
from controller.process.access.tokens import Stamp, stamp_of

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0


class Renewal:
    """Loads files again once they have changed. Make it before they are loaded first, so that no change is missed."""

    def __init__(self, named: str, files: Iterable[str | None], load: Callable[[], None]) -> None:
        """`named`: the settings, for messages. `files`: None is none. `load` raises OSError or ConfigError, without any
        secret in it, if they are of no use, and then has changed nothing."""
        self._named, self._load = named, load
        self._files = [Path(file) for file in files if file is not None]
        self._failing = False
        try:
            self._loaded: list[Stamp] | None = self._stamps()
        except OSError:
            self._loaded = None

    def __bool__(self) -> bool:
        """Whether there are files at all."""
        return bool(self._files)

    def look(self) -> None:
        """Load them if they have changed, or were of no use the last time; one warning while they are."""
        try:
            now = self._stamps()  # first, so that a change while they are read is noticed the next time
            if self._failing or now != self._loaded:
                self._load()
                log.info("%s: the renewed files are in use", self._named)
            self._loaded, self._failing = now, False
        except (OSError, ConfigError) as error:
            if not self._failing:
                log.warning("%s cannot be renewed: %s; what was read last stays in use", self._named, error)
            self._failing = True

    def _stamps(self) -> list[Stamp]:
        return [stamp_of(file) for file in self._files]


async def keep_renewed(renewal: Renewal, every_s: float = LOOK_EVERY_S) -> None:
    """Look again and again, until cancelled."""
    while True:
        renewal.look()
        await asyncio.sleep(every_s)


def renewal_of_server(context: ssl.SSLContext, tls: TlsFiles) -> Renewal:
    """Of the certificate that a server's context shows, also while it is in use."""
    certificate, key = tls.certificate, tls.key
    assert certificate is not None
    assert key is not None

    def load() -> None:
        tls.server_context()  # tried first: a pair that does not fit would leave the context without a key
        load_certificate(context, certificate, key)

    return Renewal("http.tls_certificate", (certificate, key), load)
