"""Kafka, as the rest of the code sees it: topics, a JSON producer, a reader thread, client security settings."""

from __future__ import annotations

import logging

# During an outage the client library warns several times a second about each connection. Our producer and reader
# report what matters themselves: records not delivered, reconnects, gaps, the last contact.
CHATTY = ("kafka.cluster", "kafka.net")
for _name in CHATTY:
    logging.getLogger(_name).setLevel(logging.ERROR)

_CONNECTIONS = ("Connection failed", "Connection lost")


def _is_news(record: logging.LogRecord) -> bool:
    """False for each single connection that was not made, which comes every second as an error. Whoever wanted it says
    so once; all of them are shown at level debug."""
    return logging.getLogger().isEnabledFor(logging.DEBUG) or not any(text in str(record.msg) for text in _CONNECTIONS)


for _name in ("kafka.net.connection", "kafka.net.manager"):
    logging.getLogger(_name).addFilter(_is_news)
