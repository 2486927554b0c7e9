"""Kafka for the rest of the code: topics, a JSON producer, readers, the owner record, client security settings.

In: bootstrap servers and client settings. Out: records, delivered in threads of their own.
"""

from __future__ import annotations

import logging

# During an outage the client library logs several warnings a second for each connection. Our producer and reader log
# what matters themselves: undelivered records, reconnects, gaps, the last contact.
NOISY_LOGGERS = ("kafka.cluster", "kafka.net")
for _name in NOISY_LOGGERS:
    logging.getLogger(_name).setLevel(logging.ERROR)

_CONNECTIONS = ("Connection failed", "Connection lost", "Bootstrap failed")


def _is_news(record: logging.LogRecord) -> bool:
    """Whether to keep a log record. Errors about connections come with every attempt: they are dropped unless the
    level is debug, because whoever needed the connection logs the failure once."""
    return logging.getLogger().isEnabledFor(logging.DEBUG) or not any(text in str(record.msg) for text in _CONNECTIONS)


for _name in ("kafka.net.connection", "kafka.net.manager"):
    logging.getLogger(_name).addFilter(_is_news)
