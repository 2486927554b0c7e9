"""Reads the fields of a frame's header: whoever reaches the port may have written anything there.

A number is a whole one that JSON, the files and 64 bits hold, and a text is printable and not too long. So an epoch
always compares with every other one, and what is stored is read again as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.errors import BadRecord, shown
from controller.domain.strict_json import is_whole

MAX_TEXT = 512  # characters: of an owner, a subscription, a client
MAX_TOPIC = 4_096


def text_in(header: Mapping[str, Any], name: str, most: int = MAX_TEXT) -> str:
    """A printable text of 1 to `most` characters. Raises BadRecord."""
    value = header.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
        raise BadRecord("frame_field", f"{name} is {shown(value)}, wanted printable text of 1 to {most} characters")
    return value


def topic_in(header: Mapping[str, Any]) -> str:
    """The field `topic`; whether it is a topic's name is judged elsewhere. Raises BadRecord."""
    return text_in(header, "topic", MAX_TOPIC)


def number_in(header: Mapping[str, Any], name: str, absent: int | None = None) -> int:
    """A whole number of at least 0; `absent` if that is given and the field is not. Raises BadRecord."""
    value = header.get(name, absent)
    if not is_whole(value):
        raise BadRecord("frame_field", f"{name} is {shown(value)}, wanted a whole number from 0 to 2^53")
    return value


def optional_number_in(header: Mapping[str, Any], name: str) -> int | None:
    """The same, or None if the field is absent or null. Raises BadRecord."""
    return None if header.get(name) is None else number_in(header, name)


def switch_in(header: Mapping[str, Any], name: str, absent: bool) -> bool:
    """True or false. Raises BadRecord."""
    value = header.get(name, absent)
    if not isinstance(value, bool):
        raise BadRecord("frame_field", f"{name} is {shown(value)}, wanted true or false")
    return value


def ranges_in(header: Mapping[str, Any], name: str) -> list[tuple[int, int]]:
    """Ranges of offsets [low, high), none of them empty; no ranges if the field is absent. Raises BadRecord."""
    given = header.get(name, [])
    if not isinstance(given, list):
        raise BadRecord("frame_field", f"{name} is {shown(given)}, wanted a list of ranges")
    for pair in given:
        whole = isinstance(pair, list) and len(pair) == 2 and all(map(is_whole, pair))
        if not whole or pair[0] >= pair[1]:
            raise BadRecord("frame_field", f"{name} holds {shown(pair)}, wanted offsets [low, high), low below high")
    return [(low, high) for low, high in given]
