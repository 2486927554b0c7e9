"""Generates a day of load reports, as a recording or as the JSON lines that agents would have sent.

Bundles of lognormal size follow the daily rhythm of their namespace (a sine, sixteen bundles per namespace), each with
noise. CPU follows messages and bytes, plus a constant part that every broker uses without load. The placement is uneven
and fixed, except that one broker is away for half an hour at noon and others own its bundles. The same arguments give
the same day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.backtest.recording.recording import Recording
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.sim.field.names import broker_name, bundle_names

Floats = NDArray[np.float64]
STEP_MS = 30_000
DAY_STEPS = 24 * 3600 * 1000 // STEP_MS
START_MS = 1_700_006_400_000  # a midnight
CORES, NIC_BYTES_PER_S = 16, 1.25e9
IDLE_CPU_PCT = 60.0
CPU_A_MESSAGE, CPU_A_BYTE = 0.04, 0.00002  # percent of one core
MEAN_UTILISATION = 0.45  # of the CPU, over the day
SWING, NOISE = 0.5, 0.03
LATENCY_MS = (0.5, 2.0)  # request queue, metadata store
AWAY = 7  # the broker that is away at noon
AWAY_STEPS = range(DAY_STEPS // 2, DAY_STEPS // 2 + 60)
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_R = {name: at for at, name in enumerate(RESOURCES)}


@dataclass(frozen=True, eq=False)
class Day:
    """B brokers x N bundles over some steps of the day."""

    brokers: int = 50
    bundles: int = 2_000
    steps: int = DAY_STEPS
    seed: int = 1

    def recording(self) -> Recording:
        """All steps as arrays."""
        moments = list(self.moments())
        usage, limit, member = (np.array([part[at] for part in moments]) for at in (2, 3, 5))
        return Recording(
            brokers=tuple(map(broker_name, range(self.brokers))),
            bundles=bundle_names(self.bundles),
            at_ms=START_MS + (np.arange(self.steps, dtype=np.int64) + 1) * STEP_MS,
            usage=usage,
            limit=limit,
            totals=np.array([part[4] for part in moments]),
            latency=np.where(member[..., None], LATENCY_MS, np.nan),
            member=member,
            owner=np.array([part[0] for part in moments]),
            fields=np.array([part[1] for part in moments]),
        )

    def write_lines(self, path: Path) -> int:
        """Write the day as load reports v1, one per line; return their number."""
        count = 0
        with path.open("w") as file:
            for line in self._lines():
                file.write(line)
                count += 1
        return count

    def moments(self) -> Iterator[tuple[Any, ...]]:
        """Owner [N], fields [N x F] (float32), usage and limit [B x R], totals [B x F], member [B] of every step."""
        rng = np.random.default_rng(self.seed)
        load = rng.lognormal(0.0, 0.9, self.bundles)
        phase = rng.random((self.bundles + 15) // 16)[np.arange(self.bundles) // 16] * 0.4
        attraction = rng.lognormal(0.0, 0.25, self.brokers)
        home = rng.choice(self.brokers, self.bundles, p=attraction / attraction.sum()).astype(np.int64)
        refuge = rng.choice([b for b in range(self.brokers) if b != AWAY], self.bundles).astype(np.int64)
        size = rng.lognormal(6.5, 0.5, self.bundles)  # bytes a message
        sessions = np.rint(rng.lognormal(3.0, 0.8, self.bundles))
        work = MEAN_UTILISATION * CORES * 100.0 * self.brokers - IDLE_CPU_PCT * self.brokers
        rate = load / (load * (CPU_A_MESSAGE + CPU_A_BYTE * size)).sum() * work  # messages in + out
        for step in range(self.steps):
            hours = 2 * np.pi * (step / DAY_STEPS + phase)
            now = rate * (1 + SWING * np.sin(hours)) * np.maximum(rng.normal(1.0, NOISE, self.bundles), 0.0)
            away = step in AWAY_STEPS and self.brokers > AWAY
            owner = np.where(home == AWAY, refuge, home) if away else home
            fields = self._fields(now, size, sessions)
            yield owner, fields, *self._used(owner, fields, away)

    def _fields(self, messages: Floats, size: Floats, sessions: Floats) -> NDArray[np.float32]:
        result = np.zeros((len(messages), len(BUNDLE_FIELDS)))
        columns: dict[str, Floats | float] = {
            "msg_rate_in": messages / 3, "msg_rate_out": messages * 2 / 3,
            "throughput_in": messages * size / 3, "throughput_out": messages * size * 2 / 3,
            "topics": 12.0, "producers": sessions // 2, "consumers": sessions - sessions // 2, "sessions": sessions,
        }  # fmt: skip
        for name, values in columns.items():
            result[:, _F[name]] = values
        return result.astype(np.float32)

    def _used(self, owner: NDArray[np.int64], fields: NDArray[np.float32], away: bool) -> tuple[Any, ...]:
        member = np.ones(self.brokers, bool)
        member[AWAY : AWAY + 1] = not away
        totals = np.column_stack([np.bincount(owner, column, self.brokers) for column in fields.T])
        messages = totals[:, _F["msg_rate_in"]] + totals[:, _F["msg_rate_out"]]
        size = totals[:, _F["throughput_in"]] + totals[:, _F["throughput_out"]]
        usage = np.full((self.brokers, len(RESOURCES)), np.nan)
        limit = usage.copy()
        usage[:, _R["cpu"]] = IDLE_CPU_PCT + messages * CPU_A_MESSAGE + size * CPU_A_BYTE
        limit[:, _R["cpu"]] = CORES * 100.0
        for way in ("in", "out"):
            usage[:, _R[f"bandwidth_{way}"]] = totals[:, _F[f"throughput_{way}"]]
            limit[:, _R[f"bandwidth_{way}"]] = NIC_BYTES_PER_S
        usage[~member], limit[~member] = np.nan, np.nan
        return usage, limit, totals, member

    def _lines(self) -> Iterator[str]:
        names = bundle_names(self.bundles)
        for step, (owner, fields, usage, limit, totals, member) in enumerate(self.moments()):
            rows = np.round(fields.astype(np.float64), 3).tolist()
            for broker in np.flatnonzero(member).tolist():
                resources = {
                    name: {"usage": _report_value(usage[broker, at]), "limit": _report_value(limit[broker, at])}
                    for name, at in _R.items()
                }
                held = np.flatnonzero(owner == broker).tolist()
                figures = dict(zip(BUNDLE_FIELDS, np.round(totals[broker], 3).tolist(), strict=True))
                report = {
                    "v": 1, "broker": broker_name(broker), "incarnation": 1, "nonce": "recorded", "session": 1,
                    "sequence": step + 1, "sent_ms": START_MS + step * STEP_MS + 20_000 + broker,
                    "resources": resources, "rpc_queue_ms": LATENCY_MS[0], "metadata_latency_ms": LATENCY_MS[1],
                    "totals": {**figures, "bundles": len(held)},
                    "bundles": [
                        {"bundle": names[at], **dict(zip(BUNDLE_FIELDS, rows[at], strict=True)),
                         "partitioned_topics": []}
                        for at in held
                    ],
                    "tail": None,
                }  # fmt: skip
                yield json.dumps(report, separators=(",", ":")) + "\n"


def _report_value(value: float) -> float:
    """A value of a report; -1 stands for unknown."""
    return round(float(value), 3) if np.isfinite(value) else -1.0
