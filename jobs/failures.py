"""What ended a query, in one line: Spark's own errors have hundreds, and the cause is among the last."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.bus.failures import describe_refusal_in_spark, describe_silence_in_spark
from controller.domain.errors import first_line, without_login

_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_SAYS_NOTHING = "An error occurred while calling "  # py4j's first line; the Java error follows in the next one


def of_kafka(error: BaseException, client: Mapping[str, object], servers: str) -> str:
    """What Kafka refused, or that it did not answer, and what to do; empty for any other error. `client`, `servers`:
    of the settings."""
    text = str(error)
    return describe_refusal_in_spark(text, client) or describe_silence_in_spark(text, servers)


def in_one_line(error: BaseException, client: Mapping[str, object], servers: str) -> str:
    """The same, or of any other error the first line and the innermost cause of Spark's."""
    return of_kafka(error, client, servers) or _with_cause(error)


def _with_cause(error: BaseException) -> str:
    first, text = first_line(error), str(error).strip()
    causes = _CAUSE.findall(text)
    cause = without_login(causes[-1].strip()) if causes else ""
    if not text.startswith(_SAYS_NOTHING):
        return first if cause in first else f"{first} (cause: {cause})"
    following = [line.removeprefix(": ") for line in text.splitlines()[1:2]]
    return cause or without_login("".join(following)) or first
