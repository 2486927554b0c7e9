"""What a round of `steady` goes by: brokers' usage as the usage model sees it, and what each can take.

Some brokers are set apart. A *slow* one (work costs much more there, or its backlog piles up while others' does not)
gets nothing; nor does a *blind* one, which may be full: a resource of it is not known, or so far above its limit that
the limit must be wrong. An *impossible* one (so far above its limit of CPU, and not by its own bundles) neither gives
nor takes. What a process uses without any traffic is used capacity like any other, and never a fault.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCE_SCALES, RESOURCES
from controller.policy.usage.departed import OTHERS, SOME
from controller.policy.usage.model import UsageModel
from controller.policy.usage.network import BYTES, find_foreign
from controller.policy.usage.observe import observe
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import NETWORKS, PERMILLE, Estimates
from controller.policy.view.frame import NOBODY, Ints, count_held
from controller.policy.view.median import median
from controller.policy.view.snapshot import Bools, Snapshot

CPU = RESOURCES.index("cpu")
NETWORK = [RESOURCES.index(name) for name in NETWORKS]
SLOW = 1.75  # times what work costs elsewhere
SLOW_FROM = 0.05  # of the limit, that this must make: of little work nobody can tell
HALF = 0.5
BACKLOG_S, BACKLOG_FACTOR = 60.0, 8.0  # of its own traffic, and times the cluster's median
_SCALES = np.array(RESOURCE_SCALES, np.float64)
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_BYTES = [_F[name] for name in BYTES.values()]


@dataclass(frozen=True, eq=False)
class Usage:
    """B brokers, N bundles, R resources, in the resources' units."""

    now: Floats  # [B x R] NaN unknown
    limit: Floats  # [B x R] NaN unknown; of a network that is as slow as the slowest that is known
    passing: Floats  # [B x R] of that, what is not expected to last
    known_bursts: Bools  # [B] whether most of that is the usual bursts of its bundles
    spike: Floats  # [B x R] of what will pass: there is no hurry, whatever it comes to
    read: Floats  # [B] CPU as this round's reading has it, if that is believed; else 0
    error: Floats  # [B] of CPU, a standard deviation
    base: Floats  # [B] CPU without any traffic
    foreign: Floats  # [B x R] what no bundle there accounts for: of CPU the base, of networks other bytes; else 0
    tested: Bools  # [B] of whose base something is known, as bundles have left
    proven: Bools  # [B] of those, who are kept busy by something else: these took no more than they should
    speed: Floats  # [B] CPU that work costs there, 1 usually
    held: Ints  # [B] how many bundles each owns
    settled: Floats  # [B] CPU for bundles whose last move is long enough ago
    cost: tuple[Floats, ...]  # of each resource, [N] on a usual broker, now
    cost_error: Floats  # [N] of its CPU, a standard deviation
    lasting: Floats  # [N] the part of it that is expected to last
    slow: Bools  # [B]
    backlog_s: Floats  # [B] of those who are slow as their backlogs pile up, in seconds of their traffic; else 0
    impossible: Bools  # [B]
    explained: Bools  # [B] as far above the limit, and by their own bundles
    blind: Bools  # [B] of which something is not known that is known of most
    rounds: int  # so many the model has seen
    wander: float  # of brokers' loads from round to round, as a share of their mean

    @classmethod
    def of(cls, snapshot: Snapshot) -> Usage:
        """Of a snapshot whose frame has estimates, or else of what this one round shows."""
        estimates = snapshot.frame.estimates or observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        settled = estimates.broker("cpu_used") if estimates.cpu_settled is None else estimates.cpu_settled
        tested = np.zeros(len(settled), np.int64) if estimates.base_tested is None else estimates.base_tested
        scale = RESOURCE_SCALES[CPU]
        now = snapshot.usage.copy()
        cost = list(snapshot.cost.T)
        cost[CPU] = estimates.bundle("cpu_cost") / scale
        speed = estimates.broker("speed_permille") / PERMILLE
        known = np.isfinite(now[:, CPU])
        moved = _moved_since(snapshot, cost[CPU], speed)
        used = estimates.broker("cpu_used") / scale + moved
        now[known, CPU] = np.maximum(used, 0.0)[known]
        now[:, NETWORK] += estimates.correction / _SCALES[NETWORK]
        over = np.nan_to_num(snapshot.utilisation) > IMPOSSIBLE_FACTOR
        explained = _explained(snapshot, cost[CPU], over[:, CPU])
        backlogs_s, limit = _backlogs_s(snapshot), _limits(snapshot)
        misread = over & (np.arange(len(RESOURCES)) != CPU)
        now[misread] = np.nan  # one limit is wrong: the other resources still tell
        return cls(
            now=now,
            limit=limit,
            passing=estimates.burst / _SCALES,
            known_bursts=_known_bursts(snapshot, estimates),
            spike=_spikes(estimates),
            read=np.zeros(len(moved)) if estimates.cpu_read is None else estimates.cpu_read / scale + moved,
            error=estimates.broker("cpu_error") / scale,
            base=estimates.broker("cpu_base") / scale,
            foreign=_foreign(snapshot, estimates.broker("cpu_base") / scale, now),
            tested=tested >= SOME,
            proven=tested == OTHERS,
            speed=speed,
            held=_held(snapshot, estimates),
            settled=settled / scale + np.minimum(moved, 0.0),
            cost=tuple(cost),
            cost_error=estimates.bundle("cpu_error") / scale,
            lasting=estimates.bundle("lasting_permille") / PERMILLE,
            slow=_is_slow(snapshot, speed, now[:, CPU] - estimates.broker("cpu_base") / scale) | (backlogs_s > 0),
            backlog_s=backlogs_s,
            impossible=over[:, CPU] & ~explained,
            explained=explained,
            blind=_is_blind(snapshot, limit) | misread.any(axis=1),
            rounds=estimates.rounds,
            wander=estimates.wander_permille / PERMILLE,
        )


def _spikes(estimates: Estimates) -> Floats:
    """[B x R] what has come and gone before."""
    result = np.zeros(estimates.burst.shape)
    if estimates.cpu_spike is not None:
        result[:, CPU] = estimates.cpu_spike / _SCALES[CPU]
    if estimates.network_spike is not None:
        result[:, NETWORK] = estimates.network_spike / _SCALES[NETWORK]
    return result


def _foreign(snapshot: Snapshot, base: Floats, now: Floats) -> Floats:
    """[B x R] what no bundle accounts for."""
    result = np.zeros(now.shape)
    result[:, CPU] = base
    carried = snapshot.totals[:, _BYTES]
    for at, bytes_per_s in zip(NETWORK, carried.T, strict=True):
        known = snapshot.eligible & np.isfinite(now[:, at])
        result[:, at] = find_foreign(now[:, at] - bytes_per_s, carried.sum(axis=1), known)
    return result


def _known_bursts(snapshot: Snapshot, estimates: Estimates) -> Bools:
    """[B] whether at least half of the CPU that will not last is that of bundles that had bursts before."""
    cost, lasting = estimates.bundle("cpu_cost"), estimates.bundle("lasting_permille")
    known = (snapshot.owner != NOBODY) & (estimates.bundle("burst_rounds") > 0)
    passing = np.bincount(snapshot.owner[known], (cost * (PERMILLE - lasting))[known], len(snapshot.brokers))
    return np.asarray((passing > 0) & (2 * passing >= PERMILLE * estimates.burst[:, CPU]))


def _limits(snapshot: Snapshot) -> Floats:
    """[B x R] as reported. A virtual machine may not know how fast its network is: then it is as slow as any other."""
    limit: Floats = snapshot.limit.copy()
    for at in NETWORK:
        known = np.isfinite(limit[:, at]) & snapshot.eligible
        if known.any():
            unknown = np.isnan(limit[:, at]) & np.isfinite(snapshot.usage[:, at])
            limit[unknown, at] = limit[known, at].min()
    return limit


def _moved_since(snapshot: Snapshot, cost: Floats, speed: Floats) -> Floats:
    """[B] CPU of the moves that count as done in this round already, such as those of overrides."""
    result = np.zeros(len(speed))
    before = snapshot.frame.bundle("owner")
    for at in np.flatnonzero(before != snapshot.owner).tolist():
        for broker, sign in ((int(before[at]), -1.0), (int(snapshot.owner[at]), 1.0)):
            if broker != NOBODY:
                result[broker] += sign * cost[at] * speed[broker]
    return result


def _held(snapshot: Snapshot, estimates: Estimates) -> Ints:
    """[B] how many bundles each owns, with the moves that count as done already."""
    count, before, owner = len(snapshot.brokers), snapshot.frame.bundle("owner"), snapshot.owner
    if estimates.held is None:
        return count_held(owner, count)
    moved = before != owner
    return np.asarray(estimates.held + count_held(owner[moved], count) - count_held(before[moved], count))


def _is_slow(snapshot: Snapshot, speed: Floats, by_work: Floats) -> Bools:
    """[B] on which work costs much more than elsewhere. `by_work`: [B] CPU that it uses there."""
    more = by_work * (1 - 1 / np.maximum(speed, 1.0))
    clear = more >= SLOW_FROM * snapshot.limit[:, CPU]
    return np.asarray((speed >= SLOW) & clear & (snapshot.weights[CPU] > 0))


def _backlogs_s(snapshot: Snapshot) -> Floats:
    """[B] the backlog in seconds of its traffic, of those whose backlogs pile up while others' do not; else 0.

    That concerns most of what such a broker carries. A single large backlog is that of a subscription nobody reads.
    """
    both = snapshot.totals[:, _BYTES].sum(axis=1)
    backlog_s = snapshot.totals[:, _F["backlog_bytes"]] / np.maximum(both, 1.0)
    usual = median(backlog_s[snapshot.eligible]) if snapshot.eligible.any() else 0.0
    most = max(BACKLOG_S, BACKLOG_FACTOR * usual)
    if not (backlog_s > most).any():
        return np.zeros(len(both))
    owned = np.flatnonzero(snapshot.owner != NOBODY)
    traffic = snapshot.fields[owned][:, _BYTES].sum(axis=1)
    late = np.where(snapshot.fields[owned, _F["backlog_bytes"]] > most * traffic, traffic, 0.0)
    carried, behind = (np.bincount(snapshot.owner[owned], values, len(both)) for values in (traffic, late))
    return np.where((backlog_s > most) & (behind > HALF * carried), backlog_s, 0.0)


def _is_blind(snapshot: Snapshot, limit: Floats) -> Bools:
    """[B] without a resource that counts and that most others report."""
    known = np.isfinite(snapshot.usage) & np.isfinite(limit)
    if not snapshot.eligible.any():
        return np.zeros(len(known), bool)
    usual = (known[snapshot.eligible].mean(axis=0) > HALF) & (snapshot.weights > 0)
    return np.asarray((usual & ~known).any(axis=1))


def _explained(snapshot: Snapshot, cost: Floats, over: Bools) -> Bools:
    """[B] of those whose CPU is far above its limit, who are by their own bundles: that is load."""
    if not over.any():
        return np.zeros(len(over), bool)
    owned = snapshot.owner != NOBODY
    of_bundles = np.bincount(snapshot.owner[owned], cost[owned], len(over))
    return np.asarray(over & (of_bundles * SLOW >= np.nan_to_num(snapshot.usage[:, CPU])))
