"""The exception tree. Every message contains the offending value and the next step.

BallastError
├── ConfigError            bad configuration: the process does not start
├── BadRecord              a record from outside breaks a rule: it is quarantined, or rejected if it is a command
├── InvariantBroken        our own state contradicts itself: the process stops
├── CommitError
│   ├── ForeignCommit      another controller has committed or taken the topics: this instance stops
│   └── OutcomeUnknown     the table store does not tell whether a commit happened
├── AnotherController      a live controller holds the journal, or the topics belong to another journal
├── IncompatibleTable      a Delta table has features that agents cannot read, or lacks required columns
├── OtherRules             a stored round was decided by other rules than this version's
├── JavaNotFit             no Java 17 or 21 with the modules that Spark needs
└── StoreError
    └── Fenced             a write with an epoch below the fence

Rooms above add leaves of their own, each next to the code that raises it, as `bus.cluster.KafkaUnavailable`.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence

# Lengths are bounded, so that no text from outside takes for ever. A token may have some thousand characters.
_LOGIN = re.compile(
    r"(?<=://)[^@:\s]{0,256}:[^@\s]{0,4096}@"  # abfss://container@account has none
    r"|(?:(?<=http://)|(?<=https://)|(?<=pulsar://)|(?<=\+ssl://))[^@/\s]{1,4096}@"  # a token alone
    r"|(?<![^\s,='\"\[(])[^@:/\s,='\"\[(]{1,256}:(?!\d{1,5}@)[^@/\s,]{1,4096}@",  # user:password@host without a scheme
    re.IGNORECASE,
)
_SECRET_PARAMETER = re.compile(
    r"([?&;#](?:[\w.-]{0,40}(?:token|passw(?:or)?d|passphrase|secret|(?:access|account|api|private|secret|shared)[_.-]?key)"
    r"|(?:[\w.-]{0,40}[_.-])?(?:pwd?|sig|signature)|key)=)[^&\s'\",;)]+",
    re.IGNORECASE,
)
# What an object store answers to a request that it refuses: a document, of which two fields matter.
_STORES_ANSWER = re.compile(r"(?:<\?xml[^>]{0,200}>\s{0,20})?<Error(?:\s[^>]{0,200})?>.{0,2000}?</Error>", re.DOTALL)
_OF_AN_ANSWER = re.compile(r"<(?:Code|Message)>([^<]{1,1000})</")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BRANCH = re.compile(r"\s*↳\s*")
SHOWN_CHARS = 80  # of an offending value
_BRIEF = reprlib.Repr()  # as `repr`, but only the beginning of what is long or deep
_BRIEF.maxstring = _BRIEF.maxother = SHOWN_CHARS


def without_login(text: str) -> str:
    """The text without the credentials of addresses in it, such as `s3a://KEY:SECRET@bucket`; for display."""
    return _SECRET_PARAMETER.sub(r"\1***", _LOGIN.sub("***@", text) if "@" in text else text)


def shown(value: object) -> str:
    """The beginning of an offending value, on one line, whatever it holds and however large it is; text in quotes."""
    if isinstance(value, str):
        return repr(value) if len(value) <= SHOWN_CHARS else f"{value[:SHOWN_CHARS]!r}…"
    try:
        text = _BRIEF.repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def printable(text: str, instead: str = "?") -> str:
    """The text with `instead` for every character that would control a terminal or cannot be encoded."""
    return text if text.isprintable() else "".join(c if c.isprintable() else instead for c in text)


def label(name: str) -> str:
    """A name within a message: as it is, unless it is blank, or long, or holds what cannot be printed."""
    return name if name.strip() and name.isprintable() and len(name) <= SHOWN_CHARS else shown(name)


def few_text(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def describe_error(error: BaseException) -> str:
    """The error as one line: what it was about, if that was noted on it, and its text; without credentials."""
    text = error.text if isinstance(error, BadRecord) else str(error)
    plain = _BRANCH.sub(": ", _COLOUR.sub("", text))  # delta-rs draws the causes of an error as a tree
    plain = _STORES_ANSWER.sub(lambda answer: ", ".join(_OF_AN_ANSWER.findall(answer[0])) or answer[0], plain)
    return without_login(" ".join(": ".join([*getattr(error, "__notes__", ()), plain]).split()))


def first_line(error: BaseException) -> str:
    """What it was about, if that was noted on it, and the first line of its text, or its type where it has no text:
    Spark's errors have hundreds of lines. Without credentials."""
    text = str(error).strip().splitlines() or [type(error).__name__]
    return without_login(": ".join([*getattr(error, "__notes__", ()), text[0]]))


class BallastError(Exception):
    """Base of all errors that Ballast raises on purpose; catch this at the edge of a process."""

    def __str__(self) -> str:
        return without_login(super().__str__())


class ConfigError(BallastError):
    """Raised at start for an unknown key, a bad value, or settings that contradict each other or what they name."""


class PortTaken(ConfigError):
    """Raised at start for a port that another process listens on."""


class BadRecord(BallastError):
    """Raised while parsing or validating input from outside; `rule_id` names the broken rule in a quarantine row."""

    def __init__(self, rule_id: str, text: str) -> None:
        super().__init__(f"{rule_id}: {text}")
        self.rule_id = rule_id
        self.text = text


class InvariantBroken(BallastError):
    """Raised when a transition or fold would contradict the journal. It ends the process; nobody recovers from it."""


class CommitError(BallastError):
    """Base of what can go wrong with a commit."""


class ForeignCommit(CommitError):
    """Raised when another instance has committed data: this instance must stop."""


class OutcomeUnknown(CommitError):
    """Raised when the table store does not tell whether a commit happened; the caller blocks and tries again."""


class AnotherController(BallastError):
    """Raised at start when another controller or journal holds the topics; the message names it."""


class IncompatibleTable(BallastError):
    """Raised when a table has features outside the allow-list of `ledger.tables`, or lacks required columns."""


class OtherRules(BallastError):
    """Raised when a stored round was decided by other rules, so that replaying it proves nothing."""

    def __init__(self, rules: int, strategy: str, rules_here: int) -> None:
        super().__init__(
            f"decided by rules {rules} of {strategy}, this version decides by rules {rules_here}: replay it with the "
            "version that decided it"
        )
        self.rules = rules


class JavaNotFit(BallastError):
    """Raised when JAVA_HOME and PATH offer no Java 17 or 21 with jdk.incubator.vector."""


class StoreError(BallastError):
    """Raised when the segment store refuses or cannot be reached."""


class Fenced(StoreError):
    """Raised when a write carries an epoch below the range's fence."""
