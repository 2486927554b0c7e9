"""A strategy's memory as the journal keeps it: a large one is deflated, since every round writes it anew.

Small ones stay as they are, readable in the journal. Both ways are exact.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

PACKED = "deflated"
LARGE_CHARS = 32_768


def packed(memory: Mapping[str, Any]) -> dict[str, Any]:
    """What to store."""
    text = json.dumps(memory, separators=(",", ":"))
    if len(text) < LARGE_CHARS:
        return dict(memory)
    return {PACKED: base64.b85encode(zlib.compress(text.encode())).decode("ascii")}


def unpacked(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a strategy gave."""
    if PACKED not in stored:
        return dict(stored)
    memory: dict[str, Any] = json.loads(zlib.decompress(base64.b85decode(stored[PACKED])))
    return memory
