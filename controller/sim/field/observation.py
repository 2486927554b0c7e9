"""What a player of the field is told: usage and rates with noise, nothing beyond a limit, and no bundle's cost.

A saturated broker reports 100 %, however much more is asked of it. Readings of CPU may be late, those of traffic never.
A broker's readings of its three resources err independently; a bundle's figures err together, since one measurement of
its traffic makes them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.decide.line import BUNDLE_FIGURES, Line
from controller.domain.load import RESOURCES
from controller.policy.view.frame import Ints
from controller.sim.field.cluster import CPU, Cluster, Floats, Random
from controller.sim.field.names import broker_name, bundle_names

START_MS = 1_700_000_000_000
MEMORY_BYTES, MEMORY_USED = 16e9, 0.4  # the same on every broker, whatever it serves
PRODUCERS, CONSUMERS = 3.0, 5.0
MEASURED = ("cpu", "bandwidth_in", "bandwidth_out")
_R = {name: at for at, name in enumerate(RESOURCES)}
_MEASURED = [_R[name] for name in MEASURED]
_G = {name: at for at, name in enumerate(BUNDLE_FIGURES)}
_RATES = [_G["throughputIn"], _G["throughputOut"]]


@dataclass(frozen=True, eq=False)
class Observation:
    """A round's line, and which brokers and bundles its rows are: b living brokers x N bundles."""

    line: Line
    brokers: Ints  # [b] index in the cluster
    bundles: Ints  # [N] index in the cluster, in the order of the line

    @property
    def owner(self) -> Ints:
        """[N] row of the owner of each bundle of the line."""
        return np.repeat(np.arange(len(self.brokers)), self.line.held)

    @property
    def utilisation(self) -> Floats:
        """[b x 3] as reported, at most 1."""
        return np.asarray(self.line.usage[:, _MEASURED] / self.line.limit[:, _MEASURED])

    @property
    def limit(self) -> Floats:
        """[b x 3] percent of a core, bytes/s, bytes/s."""
        return self.line.limit[:, _MEASURED]

    @property
    def rates(self) -> Floats:
        """[N x 2] bytes/s in and out, as reported."""
        return self.line.figures[:, _RATES]


class Observer:
    """Measures a cluster round by round; the same generator makes the same errors, whoever plays."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.broker_names = tuple(map(broker_name, range(len(cluster.cores))))
        self.bundle_names = bundle_names(len(cluster.traffic), cluster.bundles_a_tenant)
        self._names = np.array(self.bundle_names, object)
        self._before: Floats | None = None  # [B] CPU in the round before
        self._covered: list[Floats] = []  # [B] CPU in the rounds since the last reading
        self._reading: Floats | None = None  # [B]

    def observe(self, number: int, changed: bool) -> Observation:
        """The line of this round. `changed`: brokers joined or left since the one before."""
        cluster = self._cluster
        brokers = np.flatnonzero(cluster.alive)
        bundles = np.argsort(cluster.owner, kind="stable")
        limit = self._limit()[brokers]
        line = Line(
            now_ms=START_MS + number * cluster.interval_ms,
            members_changed=changed,
            brokers=tuple(self.broker_names[at] for at in brokers.tolist()),
            usage=self._usage_share()[brokers] * limit,
            limit=limit,
            readable=np.ones(len(brokers), bool),
            bundles=self._names[bundles].tolist(),
            held=np.bincount(cluster.owner, minlength=len(cluster.cores))[brokers],
            figures=self._figures()[bundles],
        )
        return Observation(line, brokers, bundles)

    def _limit(self) -> Floats:
        """[B x R] NaN: no such resource."""
        cluster = self._cluster
        result = np.full((len(cluster.cores), len(RESOURCES)), np.nan)
        result[:, _MEASURED] = np.column_stack([cluster.cores * 100, cluster.nic_bytes_per_s, cluster.nic_bytes_per_s])
        result[:, [_R["memory"], _R["direct_memory"]]] = MEMORY_BYTES
        return result

    def _usage_share(self) -> Floats:
        """[B x R] of the limit."""
        true = self._cluster.utilisation()
        now = true[:, CPU].copy()
        if self._before is not None:
            true[:, CPU] += self._cluster.lateness * (self._before - now)
        self._before = now
        result = np.full((len(true), len(RESOURCES)), MEMORY_USED)
        result[:, _MEASURED] = np.clip(true * self._errors(true.shape), 0, 1)
        result[:, _R["cpu"]] = self._read(result[:, _R["cpu"]])
        return result

    def _read(self, now: Floats) -> Floats:
        """[B] the last reading of CPU."""
        self._covered.append(now)
        if self._reading is None or len(self._covered) == self._cluster.reading_rounds:
            self._reading = np.mean(self._covered, axis=0)
            self._covered = []
        return self._reading

    def _figures(self) -> Floats:
        """[N x BUNDLE_FIGURES]."""
        cluster = self._cluster
        bytes_in = np.maximum(cluster.traffic * cluster.factor * self._errors(cluster.traffic.shape), 0)
        bytes_out = bytes_in * cluster.fan_out
        columns = {
            "msgRateIn": bytes_in / cluster.message_bytes,
            "msgRateOut": bytes_out / cluster.message_bytes,
            "throughputIn": bytes_in,
            "throughputOut": bytes_out,
            "topics": cluster.topics,
            "producers": np.full(len(bytes_in), PRODUCERS),
            "consumers": np.full(len(bytes_in), CONSUMERS),
        }
        return np.column_stack([columns[name] for name in BUNDLE_FIGURES])

    def _errors(self, shape: tuple[int, ...]) -> Floats:
        return 1 + self._rng.normal(0.0, self._cluster.noise, shape)
