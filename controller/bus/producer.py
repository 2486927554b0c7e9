"""Sends JSON records: acknowledged by all replicas, idempotent, without lingering for larger batches.

A failed delivery never goes unnoticed: the future fails, and the failure is counted, logged (once an outage) and passed
to `on_error`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from controller.bus.cluster import NO_SETTINGS, unavailable
from controller.bus.failures import WRITE, describe_refusal
from controller.bus.security import client_options
from controller.bus.topics import MAX_RECORD_BYTES
from controller.bus.undelivered import Undelivered

log = logging.getLogger(__name__)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_json(value: Mapping[str, Any]) -> bytes:
    """Compact UTF-8 JSON. Raises ValueError for NaN and infinities, which are not JSON."""
    return _ENCODER.encode(value).encode()


class JsonProducer:
    """A producer that the threads of a process may share."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        settings: Mapping[str, object] = NO_SETTINGS,
        *,
        delivery_timeout_ms: int = 120_000,
        max_block_ms: int = 10_000,
        connect_timeout_ms: int = 30_000,
        idempotent: bool = True,
        on_error: Callable[[str, Exception], None] | None = None,
    ) -> None:
        """`delivery_timeout_ms`: a record not acknowledged by then fails. `max_block_ms`: the longest wait inside
        `send`, for metadata or a free buffer. Raises KafkaUnavailable when no Kafka answers within
        `connect_timeout_ms`.

        `idempotent` False: for records that may be repeated (each names session and epoch, or a seq), where sending
        must resume after an outage. An idempotent producer sends nothing any more once a record has expired in flight.
        """
        opened = client_options(settings)
        self._settings = settings
        self.failed = 0
        self.last_error: Exception | None = None
        self._on_error = on_error
        self._undelivered = Undelivered()
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                client_id=client_id,
                acks="all",
                enable_idempotence=idempotent,
                # Without idempotence the broker cannot detect a repeated request: one at a time keeps the order.
                max_in_flight_requests_per_connection=5 if idempotent else 1,
                linger_ms=0,
                max_request_size=MAX_RECORD_BYTES,
                delivery_timeout_ms=delivery_timeout_ms,
                request_timeout_ms=min(30_000, delivery_timeout_ms),
                bootstrap_timeout_ms=connect_timeout_ms,
                max_block_ms=max_block_ms,
                retry_backoff_ms=50,
                # The default grows to 30 s, but a restarted broker must be noticed within a second.
                reconnect_backoff_max_ms=1_000,
                allow_auto_create_topics=False,
                **opened,
            )
        except Exception as error:
            raise unavailable(bootstrap, error, settings) from error

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        """Send one JSON record; the future resolves to (partition, offset) once all replicas have it.

        `timestamp_ms` applies to CreateTime topics only. A record that cannot even be queued fails its future; only a
        value that is no JSON raises here.
        """
        return self.send_bytes(topic, to_json(value), key, timestamp_ms)

    def send_bytes(
        self, topic: str, value: bytes, key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        """As `send`, with the record's bytes given."""
        result: Future[tuple[int, int]] = Future()
        try:
            sent = self._producer.send(
                topic, value, key=key.encode() if key is not None else None, timestamp_ms=timestamp_ms
            )
        except Exception as error:
            self._on_failure(topic, result, error)
            return result
        sent.add_callback(partial(self._on_success, topic, result))
        sent.add_errback(partial(self._on_failure, topic, result))
        return result

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until every record sent so far is acknowledged or has failed. Raises on timeout."""
        self._producer.flush(timeout=timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is queued, for at most `timeout_s`, then disconnect. What Kafka has not taken by then is lost."""
        try:
            self._producer.close(timeout=timeout_s)
        except KafkaTimeoutError:
            log.warning("Kafka has not taken the last records within %g s: they are lost", timeout_s)
        self._undelivered.close()

    def _on_failure(self, topic: str, result: Future[tuple[int, int]], error: Exception) -> None:
        self.failed += 1
        self.last_error = error
        why = describe_refusal(error, self._settings, WRITE, topic) or f"{type(error).__name__}: {error}"
        self._undelivered.note(topic, error, why)
        if self._on_error is not None:
            self._on_error(topic, error)
        result.set_exception(error)

    def _on_success(self, topic: str, result: Future[tuple[int, int]], metadata: Any) -> None:
        self._undelivered.delivered(topic)
        result.set_result((metadata.partition, metadata.offset))
