"""A server's certificate that is renewed on disk is shown to new connections, without a restart.

While certificate and key do not fit each other, as between the writing of the two, the last ones stay in use. The
authority of clients is read at start only: a context can learn of another authority, but cannot forget one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from controller.domain.errors import ConfigError
from controller.process.access.tls import TlsFiles, load_certificate
from controller.process.access.tokens import stamp_of

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0


async def renew_certificate(context: ssl.SSLContext, tls: TlsFiles, every_s: float = LOOK_EVERY_S) -> None:
    """Keep a context in use up to date with its files, until cancelled; one warning while they are of no use."""
    assert tls.certificate is not None
    assert tls.key is not None
    files, shown, failing = (Path(tls.certificate), Path(tls.key)), None, False
    while True:
        try:
            now = [stamp_of(file) for file in files]
            if failing or (shown is not None and now != shown):
                tls.server_context()  # tried first: a pair that does not fit would leave the context without a key
                load_certificate(context, tls.certificate, tls.key)
                log.info("the renewed certificate %s is in use", tls.certificate)
            shown, failing = now, False
        except (OSError, ConfigError) as error:
            if not failing:
                log.warning("http.tls_certificate cannot be renewed: %s; the last one stays in use", error)
            failing = True
        await asyncio.sleep(every_s)
