"""The exception tree. Every message carries the offending value and the next step.

BallastError
├── ConfigError            bad configuration: stops the start
├── BadRecord              a record from outside that breaks a rule: goes to quarantine, never raised past the edge
├── InvariantBroken        our own state contradicts itself: stops the process
├── CommitError
│   ├── ForeignCommit      another controller wrote the journal: this instance loses
│   └── OutcomeUnknown     the table store does not say whether a commit happened
├── AnotherController      a living controller holds the journal already
├── IncompatibleTable      a Delta table uses features that agents cannot read
├── OtherRules             a stored round was decided by other rules than this version's
├── JavaNotFit             no Java 17 or 21 with the modules Spark needs
└── StoreError
    └── Fenced             a write with an epoch below the fence
"""

from __future__ import annotations

import re

_LOGIN = re.compile(r"(?<=://)[^@\s]*:[^@\s]*@")  # abfss://container@account has none


def without_login(text: str) -> str:
    """A text to be shown: addresses with credentials in them, such as `s3a://KEY:SECRET@bucket`, without those."""
    return _LOGIN.sub("***@", text)


class BallastError(Exception):
    """Raised for everything Ballast itself refuses; catch this at the edge of a process."""

    def __str__(self) -> str:
        return without_login(super().__str__())


class ConfigError(BallastError):
    """Raised at start for an unknown key, a bad value or two names that contradict each other."""


class BadRecord(BallastError):
    """Raised while parsing one record from outside; `rule_id` names the rule for the quarantine row."""

    def __init__(self, rule_id: str, text: str) -> None:
        super().__init__(f"{rule_id}: {text}")
        self.rule_id = rule_id
        self.text = text


class InvariantBroken(BallastError):
    """Raised when a transition or fold would contradict what the journal says. Never caught."""


class CommitError(BallastError):
    """Raised when a journal commit did not happen as asked."""


class ForeignCommit(CommitError):
    """Raised when another instance committed data: the older instance stops."""


class OutcomeUnknown(CommitError):
    """Raised when the table store answers neither yes nor no; the caller blocks and asks again."""


class AnotherController(BallastError):
    """Raised at start when a living controller is heard; the message names the holder."""


class IncompatibleTable(BallastError):
    """Raised when a table's protocol has features outside the agents' allow-list."""


class OtherRules(BallastError):
    """Raised by the replay of a round that was decided by other rules: it is neither equal nor broken."""

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
