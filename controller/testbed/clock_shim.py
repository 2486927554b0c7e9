"""A library to preload that shifts the wall clock of one process, and nothing else, by what a file says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);

static long offset_s(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    long offset = 0;
    if (file) { if (fscanf(file, "%ld", &offset) != 1) offset = 0; fclose(file); }
    return offset;
}

static long cached_offset(void) { /* read again every 100 ms of the monotonic clock */
    static long offset, read_at = -1;
    struct timespec now;
    real_clock(CLOCK_MONOTONIC, &now);
    long tick = now.tv_sec * 10 + now.tv_nsec / 100000000;
    if (tick != read_at) { read_at = tick; offset = offset_s(); }
    return offset;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock(id, out);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) out->tv_sec += cached_offset();
    return result;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    (void) zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


class ClockShim:
    """Compiled in a folder; `env` is for the process whose clock is shifted. Without a compiler: not `usable`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._offset = folder / "offset"
        self._library = folder / "clock_shim.so"
        self.shift(0)
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is not None:
            source = folder / "clock_shim.c"
            source.write_text(SOURCE)
            argv = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl"]
            subprocess.run(argv, check=True, capture_output=True)

    @property
    def usable(self) -> bool:
        """Whether it could be compiled."""
        return self._library.exists()

    @property
    def env(self) -> dict[str, str]:
        """For the process to be started."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._offset)} if self.usable else {}

    def shift(self, seconds: int) -> None:
        """From now on (within 100 ms) the process's wall clock is off by so much."""
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{seconds}\n")
        fresh.rename(self._offset)
