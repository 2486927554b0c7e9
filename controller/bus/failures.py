"""What Kafka refuses for want of a right, told in one line: whose right, to do what, on what, and who tells more.

Every command and process hears of it by `NoRight`, or by the same words in its log. The client library says none of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka.errors import KafkaError

from controller.domain.errors import BallastError, first_line, without_login

PAGE = "docs/security.md#kafka"
READ, WRITE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Create", "DescribeConfigs"  # as Kafka's own tools name them
UNKNOWN = ""  # an operation that the error does not tell
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^[A-Za-z_][\w.]*: (.+)$", re.MULTILINE)  # the last line of a traceback
_OF_TASK = "An exception was thrown from the Python worker"
_SAYS_NOTHING = "An error occurred while calling "  # py4j's first line; the Java error follows in the next one
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
# Of Spark's client, or of ours in a function that Spark called, somewhere in a text of hundreds of lines.
_NAMED = re.compile(r"Not authorized to access (?:topics: \[(?P<topics>[^\]\n]+)\]|group: (?P<group>[A-Za-z0-9._-]+))")
# A task that waits for a record tells how long; the driver, which asks for offsets, does not.
_SILENT = re.compile(
    r"Cannot fetch record for offset \d+ in (?P<waited_ms>\d+) milliseconds"
    r"|org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect)Exception"
)
_UNNAMED = re.compile(r"(?P<kind>Topic|Group|Cluster)Authorization(?:Exception|FailedError)")


class TopicUnreadable(BallastError):
    """Raised when a topic cannot be read, or a record not written, in time."""


class NoRight(TopicUnreadable):
    """Raised when Kafka refuses what a login has no right to do. Another try succeeds once it has the right."""


def principal_of_client(settings: Mapping[str, object]) -> str:
    """What Kafka calls the login of these settings, as far as that is known here."""
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    if protocol.startswith("SASL") and settings.get("sasl_plain_username"):
        return f"User:{settings['sasl_plain_username']}"
    if protocol == "SSL" and settings.get("ssl_certfile"):
        return f"the owner of the certificate {settings['ssl_certfile']}"
    return "User:ANONYMOUS"


def lacks_right(settings: Mapping[str, object], operation: str, what: str) -> str:
    """That the login lacks a right, and who tells which it needs. `what`: `topic heartbeats`, `the cluster`."""
    to_do = f"the right {operation}" if operation else "a right"
    return (
        f"{principal_of_client(settings)} (kafka.client) lacks {to_do} on {what}: `ballast kafka acls` prints the ACLs"
        f" that each role needs ({PAGE})"
    )


def describe_refusal(error: BaseException, settings: Mapping[str, object], operation: str, topic: str = "") -> str:
    """A refusal of the client library in one line; empty for any other error. `topic`: if the error names none.

    An idempotent producer that may write no topic at all is told that it may not use the cluster.
    """
    found = _UNNAMED.search(f"{type(error).__name__}: {error}") if isinstance(error, KafkaError) else None
    if found is None:
        return ""
    names = _names_in(error)
    if found["kind"] == "Group":
        return _refused(lacks_right(settings, READ, f"group {names}".rstrip()))
    if found["kind"] == "Cluster" and operation != WRITE:
        return _refused(lacks_right(settings, UNKNOWN, "the cluster"))
    return _refused(lacks_right(settings, operation, f"topic {names or topic}".rstrip()))


def describe_refusal_in_spark(text: str, settings: Mapping[str, object]) -> str:
    """The same by the text of an error of Spark; empty for any other."""
    if found := _NAMED.search(text):
        what = f"topic {found['topics']}" if found["topics"] else f"group {found['group']}"
    elif found := _UNNAMED.search(text):
        what = "the cluster" if found["kind"] == "Cluster" else f"a {found['kind'].lower()}"
    else:
        return ""
    return _refused(lacks_right(settings, UNKNOWN if what == "the cluster" else READ, what))


def describe_silence_in_spark(text: str, servers: str) -> str:
    """That Kafka did not answer, by the text of an error of Spark; empty for any other error."""
    found = _SILENT.search(text)
    if found is None:
        return ""
    waited = f"for {int(found['waited_ms']) / 1000:g} s" if found["waited_ms"] else "in time"
    return f"Kafka at {servers} did not answer {waited}: start again when it does"


def describe_kafka_in_spark(error: BaseException, client: Mapping[str, object], servers: str) -> str:
    """What Kafka refused, or that it did not answer, and what to do; empty for any other error. `client`, `servers`:
    of the settings."""
    text = str(error)
    return describe_refusal_in_spark(text, client) or describe_silence_in_spark(text, servers)


def describe_spark_error(error: BaseException, client: Mapping[str, object], servers: str) -> str:
    """The same, or of any other error the first line and the innermost cause of Spark's."""
    return describe_kafka_in_spark(error, client, servers) or _with_cause(error)


@contextmanager
def telling_refusals(settings: Mapping[str, object], operation: str = UNKNOWN, topic: str = "") -> Iterator[None]:
    """Raise NoRight for what Kafka refuses inside."""
    try:
        yield
    except KafkaError as error:
        if refusal := describe_refusal(error, settings, operation, topic):
            raise NoRight(refusal) from error
        raise


def _with_cause(error: BaseException) -> str:
    first, text = first_line(error), str(error).strip()
    if _OF_TASK in text and (told := _OF_PYTHON.findall(text.split(_OF_TASK)[-1].split("\n\tat ")[0])):
        return without_login(told[-1].strip())
    causes = _CAUSE.findall(text)
    cause = without_login(causes[-1].strip()) if causes else ""
    if not text.startswith(_SAYS_NOTHING):
        return first if cause in first else f"{first} (cause: {cause})"
    following = [line.removeprefix(": ") for line in text.splitlines()[1:2]]
    return cause or without_login("".join(following)) or first


def _refused(why: str) -> str:
    return f"Kafka refuses it: {why}"


def _names_in(error: BaseException) -> str:
    """The names that the error holds, as a set or a text; an admin's error holds a whole answer of the protocol."""
    given = error.args[0] if error.args else ""
    names = sorted(map(str, given)) if isinstance(given, (set, frozenset, list, tuple)) else [str(given)]
    return ", ".join(name for name in names if _NAME.fullmatch(name))
