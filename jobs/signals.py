"""SIGTERM and SIGINT of a Spark application that is two processes: a JVM and its Python driver.

`spark-submit` is the JVM, the Python driver its child (started by plain `python` it is the other way round). The JVM's
own answer to SIGTERM tears Spark down under the running batch. So both processes are told to only ask for a stop;
whoever signals either of them, or their process group, gets the clean one.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: threading.Event) -> None:
    """Make SIGTERM and SIGINT of this process set `stop`. Call from the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in SIGNALS:
        signal.signal(number, handle)


def stop_on_jvm_signals(context: SparkContext, stop: threading.Event) -> None:
    """Make SIGTERM and SIGINT of the JVM set `stop` too, instead of ending it."""
    gateway = context._gateway
    ensure_callback_server_started(gateway)
    jvm_signal = gateway.jvm.sun.misc.Signal
    handler = _JvmHandler(stop)
    for name in ("TERM", "INT"):
        jvm_signal.handle(jvm_signal(name), handler)


class _JvmHandler:
    """`sun.misc.SignalHandler`, called by the JVM through the gateway."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, received: Any) -> None:
        self._stop.set()

    class Java:
        implements = ("sun.misc.SignalHandler",)
