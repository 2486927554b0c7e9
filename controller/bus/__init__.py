"""Kafka, as the rest of the code sees it: topics, a JSON producer, a reader thread, client security settings."""

from __future__ import annotations

import logging

# During an outage the client library warns several times a second about each connection. Our producer and reader
# report what matters themselves: records not delivered, reconnects, gaps, the last contact.
for _name in ("kafka.cluster", "kafka.net"):
    logging.getLogger(_name).setLevel(logging.ERROR)
