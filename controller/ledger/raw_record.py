"""A bad record as the columns `raw` and `raw_base64` of `quarantine` hold it."""

from __future__ import annotations

import base64


def encode_raw(value: bytes | None) -> tuple[str | None, bool]:
    """The bytes as UTF-8 text, or as base64 where they are none; the flag says which.

    Cut `value` to the length to be kept first; the whole record stays in Kafka at its offset.
    """
    if value is None:
        return None, False
    try:
        return value.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii"), True
