"""Who starts a process again that has ended: the systemd units that `ballast init` writes, by their exit codes.

Testbeds that supervise processes do as these units say. One that restarted whatever ends would not notice that the only
process of a broker had ended for good.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from controller.process.paths import CONF

AGENT, PULSAR_AGENT, JOB = "ballast-agent@", "ballast-pulsar-agent", "ballast-job"
_PREVENTING = re.compile(r"^RestartPreventExitStatus=(.*)$", re.MULTILINE)


@cache
def final_codes(unit: str) -> frozenset[int]:
    """The exit codes after which this unit starts nothing again; without the line, none."""
    text = (CONF / "systemd" / f"{unit}.service").read_text(encoding="utf-8")
    return frozenset(int(code) for codes in _PREVENTING.findall(text) for code in codes.split())


class Units:
    """How many units by each name would start a process again. Each process that lives belongs to one of them."""

    def __init__(self) -> None:
        self._active: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Another unit, on another machine or by hand, whose process starts beside those that live."""
        self._active[name] += 1

    def restart(self, name: str) -> None:
        """None lived, and one is started again. Of several units all would do so, and all but one end for good, as they
        hear that one."""
        self._active[name] = 1

    def give_up(self, name: str) -> bool:
        """A process has ended with a code that is final for its unit; whether that was the last unit."""
        self._active[name] -= 1
        return self._active[name] <= 0

    def has(self, name: str) -> bool:
        """Whether there is one that would start a process again."""
        return self._active[name] > 0
