"""`ballast explain 412`: what a reason code means, what can be done, which keys matter and their values."""

from __future__ import annotations

from typing import Any

from controller.config.settings import Settings
from controller.domain.decision import Reason
from controller.domain.reason_table import REASON_TABLE
from controller.domain.reason_words import reason_words
from controller.operations.reading import NoTables, Reader

Row = dict[str, Any]


def reason_document(settings: Settings, reason: Reason) -> Row:
    """The document about a reason; no tables are needed."""
    told = REASON_TABLE[reason]
    return {
        "about": "reason",
        "code": reason.value,
        "band": reason.band,
        "words": reason_words(reason.value),
        "meaning": told.meaning,
        "act": told.act,
        "keys": {key: _value(settings, key) for key in told.keys},
        "pulsar": told.pulsar or None,
    }


def is_broker(settings: Settings, name: str) -> bool:
    """Whether a broker is called so: a broker's name may look like a code."""
    try:
        return name in Reader(settings).state().brokers
    except NoTables:
        return False


def _value(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    value = getattr(getattr(settings, section), name)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
