"""Handles SIGTERM and SIGINT in both processes of a Spark application: the JVM and its Python driver.

With `spark-submit` the Python driver is a child of the JVM; with plain `python` it is the other way round. By default
the JVM reacts to SIGTERM by shutting Spark down under the running batch. Here a signal to either process, or to their
process group, only requests a stop, so the running batch can finish.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from jobs.spark_context import gateway_of

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT of this process. Call from the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in SIGNALS:
        signal.signal(number, handle)


class StartInterrupt:
    """Notes a SIGINT that comes before the session is there, and tells of it: `came`. Make it in the main thread.

    Ctrl-C reaches the JVM as well, which ends at once and takes our output with it: hence the line in the handler. What
    fails for want of the JVM is no news.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.came = False
        self._stop = stop
        signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.came:
            self.came = True
            self._stop.set()
            logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
            os.write(sys.stderr.fileno(), b"ballast: interrupted\n")  # print() must not be entered twice


def stop_on_jvm_signals(context: SparkContext, stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT of the JVM, instead of ending it."""
    gateway = gateway_of(context)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # py4j has no types
    jvm_signal = gateway.jvm.sun.misc.Signal
    handler = _JvmHandler(stop)
    for name in ("TERM", "INT"):
        jvm_signal.handle(jvm_signal(name), handler)


class _JvmHandler:
    """A `sun.misc.SignalHandler` that the JVM calls through the gateway."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, received: Any) -> None:
        self._stop.set()

    class Java:
        implements = ("sun.misc.SignalHandler",)
