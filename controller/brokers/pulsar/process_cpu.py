"""CPU of a broker's own process, from two readings of `broker-stats/mbeans`.

Pulsar's figure of CPU is that of the whole host or container, taken once a minute; brokers that share a host all report
the same. A process that has restarted in between, or whose counter goes back, is unknown for one reading.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import msgspec

from controller.brokers.pulsar.numbers import UNKNOWN, NoObject, number
from controller.brokers.pulsar.outcomes import Answer, Outcome

MBEANS_PATH = "/admin/v2/broker-stats/mbeans"
_SYSTEM, _RUNTIME = "java.lang:type=OperatingSystem", "java.lang:type=Runtime"
NS_A_S = 1e9


class ProcessFigures(NamedTuple):
    """Of one reading. `cpu_s`: CPU time used so far; `started_ms`: when the process started, 0 if not told."""

    cpu_s: float
    processors: float
    started_ms: int


class _Metrics(msgspec.Struct):
    ProcessCpuTime: Any = None
    AvailableProcessors: Any = None
    StartTime: Any = None


class _Dimensions(msgspec.Struct):
    MBean: Any = None


class _Bean(msgspec.Struct):
    metrics: _Metrics | NoObject = None
    dimensions: _Dimensions | NoObject = None


_BEANS = msgspec.json.Decoder(list[_Bean | NoObject])


def parse_mbeans(answer: Answer) -> ProcessFigures:
    """The figures in an answer. Raises CallFailed if they are not there."""
    known: dict[Any, _Metrics] = {}
    for bean in answer.decode(_BEANS):
        if isinstance(bean, _Bean) and isinstance(bean.metrics, _Metrics) and isinstance(bean.dimensions, _Dimensions):
            name = bean.dimensions.MBean
            if name in (_SYSTEM, _RUNTIME):
                known[name] = bean.metrics
    system, runtime = known.get(_SYSTEM, _Metrics()), known.get(_RUNTIME, _Metrics())
    cpu_ns, processors = system.ProcessCpuTime, number(system.AvailableProcessors)
    if isinstance(cpu_ns, bool) or not isinstance(cpu_ns, int) or not 0 <= cpu_ns < 2**63:
        raise answer.failure(Outcome.BAD_ANSWER, "no ProcessCpuTime of the operating system")
    if processors is None or processors < 1:
        raise answer.failure(Outcome.BAD_ANSWER, "no AvailableProcessors of the operating system")
    return ProcessFigures(cpu_ns / NS_A_S, processors, int(number(runtime.StartTime) or 0))


class ProcessCpu:
    """Usage of CPU between two readings of a broker."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, ProcessFigures]] = {}

    def usage(self, broker: str, figures: ProcessFigures, at_s: float) -> dict[str, float]:
        """`{"usage", "limit"}` in percent of one core since the last reading; unknown in the first.

        `at_s`: when the answer arrived, on a clock that cannot be set.
        """
        before = self._last.get(broker)
        self._last[broker] = (at_s, figures)
        if before is None:
            return dict(UNKNOWN)
        then_s, then = before
        used_s, passed_s = figures.cpu_s - then.cpu_s, at_s - then_s
        if passed_s <= 0 or used_s < 0 or figures.started_ms != then.started_ms:
            return dict(UNKNOWN)
        limit = 100.0 * figures.processors
        return {"usage": round(min(100.0 * used_s / passed_s, limit), 3), "limit": limit}

    def keep(self, brokers: Container[str]) -> None:
        """Forget all other brokers."""
        self._last = {broker: last for broker, last in self._last.items() if broker in brokers}
