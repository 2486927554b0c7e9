"""How a process that computes rounds on large clusters uses memory: each round makes the same large arrays again.

Python looks for garbage seldom, and what a round frees stays with the process for the next one. Arrays get small pages:
numpy asks for huge ones, and a virtual machine, which has to get most of those from its host, takes longer to provide
them than a round takes to compute what is in them. What a system's libc or kernel does not know stays as it is.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

YOUNG_OBJECTS = 500_000  # a line of 20,000 bundles makes 20,000 lists, which the collector need not scan
KEPT_BYTES = 1 << 30  # larger arrays, and what is free beyond it, go back to the system
OLDER_MOST_BYTES = 32 << 20  # older versions of glibc accept no more for arrays
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
PR_SET_THP_DISABLE = 41  # prctl.h


def settle_memory() -> None:
    """Call this once all is imported: modules are no garbage, and hardly anything that a round makes is."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # a libc other than GNU's has no mallopt
        libc = ctypes.CDLL(None)
        libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
        libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        if libc.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES) or libc.mallopt(M_MMAP_THRESHOLD, OLDER_MOST_BYTES):
            libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)  # alone it would keep arrays out of the memory that stays
