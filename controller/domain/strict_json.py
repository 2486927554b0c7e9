"""JSON from outside, read strictly, so that what passes can be stored, sent on and compared.

It is UTF-8, its numbers are finite, its keys are unique, its text is whole characters, and its nesting is bounded: a
later stage that writes it down or compares it runs out of no stack.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, TypeGuard

from controller.domain.errors import BadRecord, shown

MAX_DEPTH = 32  # of nesting
WHOLE_END = 2**53  # from here on, JSON readers of other languages round whole numbers


def parse_strictly(raw: bytes | None, limit: int, *, unique: bool = True) -> Any:
    """The document in `raw`, of at most `limit` bytes. Raises BadRecord.

    `unique` False: of two values of one key the last one counts. It takes half the time, for what has one reader only.
    """
    if raw is None or not raw:
        raise BadRecord("empty", "record without a value")
    if len(raw) > limit:
        raise BadRecord("too_large", f"{len(raw)} bytes, at most {limit}")
    try:
        text = raw.decode()  # strictly: `json.loads` takes UTF-16 and half surrogate pairs as well
        doc = (_DECODER if unique else _LENIENT).decode(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord("not_json", str(error)[:200]) from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _deeper_than(doc, MAX_DEPTH):
        raise BadRecord("too_deep", f"nested deeper than {MAX_DEPTH} levels")
    if "\\u" in text and not _is_unicode(doc):
        raise BadRecord("not_unicode", "text with half a surrogate pair")
    return doc


def check_unique_keys(raw: bytes) -> None:
    """Raise BadRecord for a key that stands twice in an object of this JSON, which another parser has read."""
    try:
        json.loads(raw, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadRecord("not_json", str(error)[:200]) from None


def is_whole(value: object, least: int = 0) -> TypeGuard[int]:
    """Whether it is a whole number that every JSON reader and every column of the tables holds: no bool, no float."""
    return type(value) is int and least <= value < WHOLE_END


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is beyond any number")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are unique: of two values of one key, every reader would pick another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise BadRecord("duplicate_key", f"{shown(twice)} stands more than once")
    return found


# Made once: `json.loads` with these arguments makes one for every record, which takes half of the parser's time.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_parse_finite, object_pairs_hook=_refuse_duplicates
)
_LENIENT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite)


def _deeper_than(value: Any, depth: int) -> bool:
    """Whether lists and objects are nested deeper than `depth` levels. Checked level by level, without recursion."""
    level = [value]
    for _ in range(depth):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [part for parts in inner for part in parts]
    return any(isinstance(v, dict | list) for v in level)


def _is_unicode(doc: Any) -> bool:
    try:
        json.dumps(doc, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
