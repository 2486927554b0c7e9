"""What a process keeps of memory, seen from outside: pages that it asks the system for, and huge pages."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

AGAIN = """
import resource
import numpy as np
from controller.process.memory import settle_memory

if {settled}:
    settle_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(8_000_000), np.ones(8_000_000)]  # 64 MB each: more than libc keeps by itself
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
HUGE = """
import ctypes
from controller.process.memory import settle_memory

settle_memory()
print(ctypes.CDLL(None).prctl(42, 0, 0, 0, 0))
"""
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="a setting of Linux")
needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")


def run(code: str) -> int:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@needs_glibc
def test_memory_that_a_round_frees_serves_the_next() -> None:
    assert run(AGAIN.format(settled=True)) < 100 < run(AGAIN.format(settled=False))


@needs_linux
def test_large_arrays_take_small_pages() -> None:
    assert run(HUGE) == 1
