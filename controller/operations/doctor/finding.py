"""A finding of `ballast doctor`: what was checked, what was found with its value, what to do, and where to read on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

Clock = Callable[[], int]  # ms since the epoch, of this machine


class Severity(str, Enum):
    """How bad a finding is. SEVERE: something does not work, or data may be lost; the exit code is 1."""

    OK = "ok"
    NOTE = "note"  # worth knowing, nothing to do
    WARNING = "warning"  # works, and will not for long, or works badly
    SEVERE = "severe"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity)[::-1].index(self)


class Page(str, Enum):
    """Pages of the documentation, each with its section."""

    CHECKS = "docs/operations.md#what-ballast-doctor-checks"
    CLUSTER = "docs/operations.md#a-cluster-of-your-own"
    MAINTENANCE = "docs/operations.md#schedule-maintenance"
    DISK = "docs/operations.md#disk"
    WATCH = "docs/operations.md#what-to-watch"
    CONTROLLER = "docs/recovery.md#the-controller-died"
    SLOW_STORE = "docs/recovery.md#the-table-store-is-slow-or-does-not-answer"
    DAMAGED = "docs/recovery.md#a-table-is-damaged"
    PROJECTIONS = "docs/recovery.md#ownership-or-brokers-is-lost-or-wrong"
    ANOTHER_KAFKA = "docs/recovery.md#kafka-was-wiped-or-replaced-and-the-tables-are-kept"
    ANOTHER_JOURNAL = "docs/recovery.md#the-topics-belong-to-another-journal"
    NO_TABLES = "docs/recovery.md#the-tables-are-gone-and-kafka-is-not"
    UPGRADING = "docs/recovery.md#upgrading-and-downgrading"
    NO_ROUNDS = "docs/recovery.md#no-rounds-run"
    MASS_FAILURE = "docs/recovery.md#too-many-brokers-fell-silent-at-once"
    NO_BROKER = "docs/runbook.md#ballastbundleunowned"
    AGENT = "docs/agent.md#how-an-agent-reads-the-journal"
    PULSAR = "docs/pulsar.md#first-hour"
    RIGHTS = "docs/security.md#kafka"
    VALIDATION = "docs/records.md#validation"
    TABLES = "docs/tables.md#delta-tables"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `remedy` and `page` are empty for what is in order."""

    check: str
    severity: Severity
    text: str
    remedy: str = ""
    page: str = ""

    def to_json(self) -> dict[str, Any]:
        """A row of `ballast doctor --json`."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "text": self.text,
            "remedy": self.remedy or None,
            "page": self.page or None,
        }


def fine(check: str, text: str) -> Finding:
    """Something is in order."""
    return Finding(check, Severity.OK, text)


def note(check: str, text: str) -> Finding:
    """Something that is worth knowing."""
    return Finding(check, Severity.NOTE, text)


def warning(check: str, text: str, remedy: str, page: Page) -> Finding:
    """Something that works badly, or soon will not."""
    return Finding(check, Severity.WARNING, text, remedy, page.value)


def severe(check: str, text: str, remedy: str, page: Page) -> Finding:
    """Something that does not work."""
    return Finding(check, Severity.SEVERE, text, remedy, page.value)
