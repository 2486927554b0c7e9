"""The rules that a load report must satisfy, by id, with their descriptions and limits. Pure.

The order of `RULES` is the order of checking, except that `group_mismatch`, `future`, `late` and `duplicate` come last.
A report is quarantined under the first rule it breaks. `controller.loads.judge` checks one record against all rules;
`controller.loads.columns` finds valid reports in bulk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.domain.errors import printable

VERSION = 1
BROKER_PATTERN = r"^[A-Za-z0-9._\-\[\]:]{1,255}$"  # as controller.domain.ids.check_broker_id
NONCE_PATTERN = r"^[A-Za-z0-9]{1,64}$"  # as controller.domain.ids.check_nonce
ASCII_BUNDLE_PATTERN = r"^[!-.0-~]{1,128}/[!-.0-~]{1,128}/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"
SHOWN_CHARACTERS = 300  # of an offending value

RULES: dict[str, str] = {
    "empty": "the record has no value",
    "too_large": "the record is larger than max_report_bytes",
    "not_utf8": "the record is not UTF-8 text",
    "not_json": "the record is not one JSON object",
    "version": "the schema version 'v' is missing or unknown",
    "wrong_type": "a field has another type than the schema of load reports says",
    "missing_field": "a required field is missing or null",
    "broker_id": "the broker id is not host:port of at most 255 plain characters",
    "key_mismatch": "the record's key is not the broker it reports for",
    "group_mismatch": "the record is in the topic of another agent group than its broker's",
    "session": "incarnation, nonce, session or sequence is not what an agent can send",
    "no_timestamp": "the record has no time",
    "future": "the record is further ahead of the clock than max_future_ms",
    "late": "the record is older than the retention of panes",
    "duplicate": "a report with this sequence has been read before",
    "too_many_bundles": "the report lists more bundles than max_report_bundles",
    "nonfinite": "a number is NaN or infinite",
    "negative": "a count, rate or time is negative",
    "impossible": "with a known limit, usage is negative or above three times the limit",
    "bundle_name": "a bundle is no printable tenant/namespace/0xLLLLLLLL_0xUUUUUUUU with lower < upper, lower-case hex",
    "duplicate_bundle": "a bundle is listed twice",
    "conservation": "bundles plus tail do not sum up to the totals",
}


@dataclass(frozen=True)
class ReportLimits:
    """The limits in the rules; units as in `LoadsSettings`. Sent to every task, so it must not hold secrets."""

    max_report_bytes: int
    max_report_bundles: int
    conservation_tolerance: float
    conservation_slack: float
    quarantine_raw_bytes: int

    @classmethod
    def of(cls, settings: Any) -> ReportLimits:
        """Take the limits from the settings of the query."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})


def describe_violation(rule: str, detail: str) -> str:
    """The rule's description with the beginning of the offending value, for operators."""
    shown = printable(detail[:SHOWN_CHARACTERS])
    return f"{RULES[rule]}: {shown}" if shown else RULES[rule]
