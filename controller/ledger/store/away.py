"""Errors of a table store that nothing but waiting ends: it cannot be reached, does not answer, or is overloaded.

delta-rs tries again by itself, with `max_retries` and `retry_timeout` of the storage options; where connections are
refused, that takes seconds only. Then it raises a plain OSError, so that its text has to tell.
"""

from __future__ import annotations

import re

from deltalake.exceptions import DeltaError

from controller.domain.errors import describe_error

_OF_STORE = re.compile(r"\AKernel error -> |\AGeneric \w+ error\b")  # delta-rs: of a table, of a file
_NO_ANSWER = re.compile(r"error sending request|non-2xx status code: (?:5\d\d|429)\b")


def is_of_store(error: BaseException) -> bool:
    """Whether the table store or its library said it."""
    return isinstance(error, DeltaError) or (isinstance(error, OSError) and bool(_OF_STORE.match(str(error))))


def is_store_away(error: BaseException) -> bool:
    """Whether the store may answer later what it does not answer now."""
    return isinstance(error, OSError | DeltaError) and _NO_ANSWER.search(describe_error(error)) is not None
