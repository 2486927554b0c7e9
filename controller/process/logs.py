"""Logs of a process: one JSON object per line, or text for a terminal, also for libraries that use `logging`.

Every line has time (UTC), level, logger, event, and the fields bound to the process (broker, cluster, ...). Tracebacks
contain files and lines, never the values of variables.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, TextIO

import structlog
import structlog.tracebacks

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# At INFO these repeat what our own lines say; at DEBUG py4j logs everything sent to the JVM, including passwords.
QUIET = ("kafka", "uvicorn", "httpx", "httpcore", "asyncio", "py4j")
_COLOUR = re.compile(r"(?:\x1b|\\u001b)\[[0-9;]*m")
# Tracebacks must not contain the values of variables, which may be passwords.
_NO_LOCALS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)


def configure_logs(level: str = "info", json_lines: bool = True, stream: TextIO | None = None, **bound: str) -> None:
    """Set up `structlog` and `logging` for the process; call this once at its start.

    `level`: debug, info, warning or error. `bound`: fields of every line.
    """
    number = _LEVELS[level]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.processors.ExceptionRenderer(_NO_LOCALS), structlog.processors.JSONRenderer(default=str)]
        if json_lines
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, _bind(bound)],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last, _without_colours],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    structlog.configure(
        processors=[*shared, _bind(bound), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _without_colours(logger: structlog.typing.WrappedLogger, name: str, line: Any) -> str:
    """The line as rendered, without the colours of delta-rs's errors: `\\u001b` where it is JSON."""
    return _COLOUR.sub("", line)


def _bind(fields: dict[str, str]) -> structlog.typing.Processor:
    """A processor that adds the process's fields; those of the line take precedence."""

    def add(
        logger: structlog.typing.WrappedLogger, name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        for key, value in fields.items():
            event.setdefault(key, value)
        return event

    return add
