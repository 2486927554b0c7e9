"""One round of `steady`: relieve the sources, then fill the idle; every chosen move changes the model at once.

The highest source comes first. It gives away the pair with the largest gain, and so on until it is well within the
tolerance; pairs that bring little of what it must give are carried out several in a step. Where no pair fits: a swap;
then a split, so that a half can move; then smaller bundles, as far as they bring something; then a skip that says what
stood in the way. A bundle that fills its broker by itself is dealt with before others are moved because of it. An idle
broker is filled to the level from the brokers above it, sources or not; nothing moves between the others for its sake.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import PolicySettings
from controller.policy.pacing import bucket_of_namespace
from controller.policy.placement.constraints import can_reach_caps
from controller.policy.placement.repair import Repair, repair_placements
from controller.policy.strategies.decision_log import DecisionLog
from controller.policy.strategies.steady.candidates import near, targets_within_rules
from controller.policy.strategies.steady.choices import Choices
from controller.policy.strategies.steady.evidence import NAME, Advice, Evidence
from controller.policy.strategies.steady.filling import find_slack
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Bounds, Candidates, Judged, evaluate
from controller.policy.strategies.steady.swap import best_swap, least_loaded
from controller.policy.strategies.steady.timing import PROBES, Timing
from controller.policy.usage.drivers import DRIVER_COLUMNS
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import PERMILLE
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, count_reasons, most_common_reason
from controller.policy.view.snapshot import Bools, Snapshot

MIN_BUDGET = 8  # moves a round, however small the cluster
MOST_FRUITLESS = 16  # sources for which a swap is looked for in vain, a round
MORE_IF_PRESSING = 600  # moves a round off pressing brokers
LEAST_EACH, MOST_EACH = 10, 60  # of those, for each
SMALLER = 0.65  # of what a move must bring, or the largest bundle: enough where nothing brings more
AT_ONCE = 0.25  # of its excess: so much may leave a broker in one step, in as many bundles as that takes
SOMETHING = 0.02  # of its excess, that the small bundles of an overloaded broker bring together in a round
DEAREST = 2.5  # times the usual, that work may cost on a machine that has none yet
FILL_SLACK = 0.15  # of the level: how far below it a source may be left when an idle broker is filled
SPLIT_FROM = 0.25  # of the level: a broker less far above it gets no split, unless it is overloaded
LARGER = 1.3  # a broker with so many times the capacity suits a bundle that fills its own
WORTH_IT = 0.1  # of its broker's load: what such a bundle's move must bring
BRINGS_NOTHING = (Reason.NOT_WORTH_MOVING, Reason.WOULD_NOT_IMPROVE, Reason.TARGET_ABOVE_MEAN, Reason.NO_BUNDLES)


def count_moves(budget: float, brokers: int, pressing: int) -> int:
    """The most that a round may choose. `budget`: for each broker."""
    more = min(MOST_EACH * pressing, max(MORE_IF_PRESSING, LEAST_EACH * pressing))
    return max(MIN_BUDGET, ceil(budget * brokers) + more)


class Planner:
    """See the module's text. `plan()` once; what it found is in the attributes afterwards."""

    def __init__(
        self, snapshot: Snapshot, model: Model, timing: Timing, settings: PolicySettings, advice: Advice
    ) -> None:
        self.snapshot, self.timing = snapshot, timing
        self.settings, self.advice = settings, advice
        pressing = int(np.count_nonzero(model.pressing & model.takes_part))
        wanted = count_moves(settings.steady.budget, len(snapshot.brokers), pressing)
        self._enter(model)
        self.evidence = Evidence(snapshot, model, timing, settings)
        self.log = DecisionLog(snapshot, NAME, self.evidence.first_reason, self.evidence.of_broker)
        self.log.visited |= model.judged_by_bundles
        budget = snapshot.quota.allow(wanted)
        self.chosen = Choices(snapshot, model, self.log, self.evidence, budget)
        most = min(budget, int(self.chosen.left.max(initial=0)))
        self.caps = settings.caps if can_reach_caps(snapshot, settings.caps, most) else None
        self._without_swap: set[int] = set()  # sources for which none was found in this round
        self._gives_small: dict[int, bool] = {}  # whether a source's small bundles are worth moving in this round
        self._barren: Ints = np.full(len(snapshot.brokers), -1)  # [B] namespaces closed when nothing was free there

    def plan(self) -> None:
        """Choose all moves of the round."""
        whole = self.model
        ceiling = max(self.settings.shed.overloaded_threshold, whole.level)
        repair = Repair(self.chosen.spent, self._open_targets, ceiling, self.log.deny, self._repair)
        repair_placements(self.snapshot, whole.placement_state, repair)
        if self.chosen.moves:
            whole.set_levels()
        probed = self.timing.probed
        self.chosen.left[probed] = np.minimum(self.chosen.left[probed], PROBES)
        for part in whole.parts:
            self._enter(part)
            self._relieve_all(self.timing.sources & part.able)
            self._barren[:] = -1
            for idle in np.flatnonzero(self.timing.idle & self.open).tolist():
                self._fill(idle)

    def _enter(self, model: Model) -> None:
        """Plan for these brokers and their level from now on."""
        self.model = model
        self.ceiling = max(self.settings.shed.overloaded_threshold, model.level)
        self.least = self.settings.steady.least_relief * model.norm
        self.usual = Bounds(self.least, 0.0, self.ceiling)
        self.open = model.takes_part & ~model.closed

    def _relieve_all(self, active: Bools) -> None:
        while active.any():
            source = int(np.argmax(np.where(active, self.model.score, -1.0)))
            if self.model.score[source] <= self._end_of(source):
                active[source] = False
            elif self.chosen.spent(source):
                self.log.deny(source, Reason.BUDGET_SPENT)
                active[source] = False
            else:
                active[source] = self._relieve(source, active)

    def _end_of(self, source: int) -> float:
        """The score at which a source has given enough for this round. What is not known of the bundles that it gave
        away may be all that is left to do, and the next reading tells; an overloaded one does not wait for that."""
        end = float(self.timing.end[source])
        return end if self.model.is_overloaded(source) else end + self.model.doubt_of_moves(source)

    def _relieve(self, source: int, active: Bools) -> bool:
        """One step of relief; whether another may follow."""
        found = self._free_of(source)
        if found is None:
            return False
        targets = self._targets(source, active, found)
        if not len(targets):
            targets = self._lower_targets(source, found)
        if not len(targets):
            self.log.deny(source, Reason.UNDER_PROVISIONED if self.model.short[source] else Reason.NO_TARGET)
            return False
        giant = self._giant(source)
        if giant is not None:
            done = self._relieve_of(*giant, source, found, targets)
            if done is not None:
                return done
        excess = float(self.model.score[source] - self.model.level)
        relief = self._relief(found)
        close = near(found, relief, excess)
        pairs = evaluate(self.model, close, targets, self.caps)
        judged = pairs.within(self.usual)
        if self._move_best(source, judged):
            return True
        far = excess / self.model.norm
        if relief.max() >= self.least and self._swap_best(source, found, targets, judged):
            return True
        boundary: int | Reason | None = None
        row = int(np.argmax(self._relief(close)))
        largest = int(close.bundles[row])
        if self._may_split(source, far):
            boundary = self.advice.split(self.model, source, close, row, excess)
        if isinstance(boundary, int):
            self.chosen.split(source, largest, boundary, self._evidence_of(judged))
            return False
        smaller = self._bounds_of_smaller(source, relief)
        if smaller is not None and self._move_best(source, pairs.within(smaller)):
            return True
        lower = self._lower_targets(source, found)
        if len(lower) and self._move_best(source, evaluate(self.model, close, lower, self.caps).within(self.usual)):
            return True
        self._deny(source, judged, largest, boundary)
        return False

    def _targets(self, source: int, active: Bools, found: Candidates) -> Ints:
        """Who may get something from it. Other sources may if they have enough of what this one has least left of: they
        are full of something else."""
        has_enough = self.model.used[:, self.model.bound_by(source)] < self.model.level
        able = self.open & (~active | has_enough) & (self.chosen.left > 0)
        return targets_within_rules(self.model, able, found)

    def _lower_targets(self, source: int, found: Candidates) -> Ints:
        """Who may get something if nobody below the level can help: where pools overlap, they may all be above it."""
        if self.model.placement_state is None:
            return np.empty(0, np.int64)
        able = self.open & (self.model.peak < self.model.score[source]) & (self.chosen.left > 0)
        return targets_within_rules(self.model, able, found)

    def _move_best(self, source: int, judged: Judged) -> bool:
        """Carry out the best pair, if any is allowed. Where it brings little of what the source must give, the next
        best follow in the same step, of other bundles and to other targets."""
        stays = float(self.model.score[source]) - AT_ONCE * self.model.excess(source)
        first: int | None = None
        for pair in judged.in_order():
            if first is not None and not self._may_follow(source, judged, pair, stays):
                break
            moved = self.chosen.move_pair(judged, pair, self._why(source), first)
            first = moved if first is None else first
        return first is not None

    def _may_follow(self, source: int, judged: Judged, pair: tuple[int, int], stays: float) -> bool:
        """Whether the pair may be carried out without judging all of them again, and leaves the source at that score
        at least."""
        after = judged.pairs.source_now(self.model, pair[0])
        if after < max(stays, self._end_of(source)):
            return False
        if self.model.placement_state is not None or self.chosen.spent(source):
            return False
        free = self.chosen.held.is_free(int(judged.pairs.candidates.bundles[pair[0]]))
        return free and judged.holds(float(self.model.score[source]), after, *pair)

    def _may_split(self, source: int, far: float) -> bool:
        """Whether a bundle may be split for it, which is `far` above the level. What bundles of an occupied broker cost
        is a guess."""
        in_need = far > SPLIT_FROM or (self.model.is_overloaded(source) and not self.model.short[source])
        return bool(in_need and not self.model.occupied[source])

    def _deny(self, source: int, judged: Judged, largest: int, unsplit: Reason | None) -> None:
        """Say why the largest bundle cannot be split, what the best pair lost by or, where most of the load may not
        move, what keeps it there."""
        if unsplit is not None:
            self.log.deny(source, unsplit, {**self._evidence_of(judged), **self.advice.for_bundle(largest, unsplit)})
            return
        held, alone = self.chosen.held.all_of(source), self.chosen.held.alone_of(source)
        block = self.snapshot.bundle_block[held]
        locked = block != ALLOWED
        obstacle, evidence = judged.obstacle(), self._evidence_of(judged)
        if alone[locked].sum() > alone[~locked].sum():
            obstacle = most_common_reason(block[locked])
            evidence |= {"bundles": len(held), "bundles_lost": count_reasons(block[locked])}
        self.log.deny(source, self._unless_occupied(source, obstacle), evidence)

    def _unless_occupied(self, source: int, obstacle: Reason) -> Reason:
        """The obstacle; but if the bundles of an occupied broker bring nothing, that is not what keeps it busy."""
        return Reason.EXTERNAL_LOAD if self.model.occupied[source] and obstacle in BRINGS_NOTHING else obstacle

    def _bounds_of_smaller(self, source: int, relief: Floats) -> Bounds | None:
        """What a move must bring where nothing brings the usual least, and neither a swap nor a split helps: SMALLER of
        it; if the broker is overloaded, or no bundle in its grace period would bring the usual least, SMALLER of what
        the largest that fits brings, where that is less. None: its small bundles stay."""
        excess = self.model.excess(source)
        fitting = relief[(relief > 0) & (relief <= max(excess, self.least))]  # a larger one cannot move, the others can
        overloaded = self.model.is_overloaded(source)
        if source not in self._gives_small:
            most = min(self.chosen.budget - self.chosen.moves, int(self.chosen.left[source]))
            together = min(float(np.sort(fitting)[-most:].sum()), excess)
            self._gives_small[source] = together >= (SOMETHING * excess if overloaded else self.least)
        if not len(fitting) or not self._gives_small[source]:
            return None
        any_size = overloaded or not self._awaits_larger(source)
        least = SMALLER * (min(float(fitting.max()), self.least) if any_size else self.least)
        return Bounds(least, 0.0, self.ceiling)

    def _awaits_larger(self, source: int) -> bool:
        """Whether it has a bundle that would bring what a move must, and whose grace period will end."""
        block, alone = self.snapshot.bundle_block[self.chosen.held.all_of(source)], self.chosen.held.alone_of(source)
        soon = block == CODES[Reason.GRACE_PERIOD]
        return bool((soon & (alone >= self.least)).any())

    def _has_only_small(self, source: int) -> bool:
        """Whether not even its largest bundle brings what a move must."""
        largest = self.chosen.held.largest_of(source)
        return largest is not None and largest[1] < self.least

    def _relief(self, found: Candidates) -> Floats:
        return np.asarray(self.model.score[found.source] - self.model.without(found.source, found.taken))

    def _giant(self, source: int) -> tuple[int, float] | None:
        """The source's largest bundle, free or not, if the score of it alone is more than a broker should carry."""
        largest = self.chosen.held.largest_of(source)
        if largest is None or self.model.occupied[source]:
            return None
        return largest if largest[1] > self.timing.end[source] else None

    def _relieve_of(self, giant: int, alone: float, source: int, found: Candidates, targets: Ints) -> bool | None:
        """A bundle that fills its broker by itself: move it to a larger broker, or split it, or leave it there alone.

        None: other bundles should leave first, since neither is possible.
        """
        model = self.model
        row = np.flatnonzero(found.bundles == giant)
        if len(row):
            only = found.select(row)
            fits_better = targets[model.size[targets] >= LARGER * model.size[source]]
            bounds = Bounds(self.least, 0.0, (1 - WORTH_IT) * float(model.score[source]))
            if len(fits_better):
                judged = evaluate(model, only, fits_better, self.caps).within(bounds)
                if self._move_best(source, judged):
                    return True
            boundary = self.advice.split(model, source, only, 0, float(model.score[source]) - model.level)
            if isinstance(boundary, int):
                self.chosen.split(source, giant, boundary, {})
                return False
        if model.score[source] > alone + self.settings.steady.tolerance * model.norm:
            return None
        obstacle = self.advice.obstacle(giant) or Reason.WOULD_NOT_IMPROVE
        self.log.deny(source, obstacle, self.advice.for_bundle(giant, obstacle))
        return False

    def _swap_best(self, source: int, found: Candidates, targets: Ints, judged: Judged) -> bool:
        """No single bundle fits: swap two with one of the least loaded targets, if that helps."""
        hopeless = source in self._without_swap or len(self._without_swap) >= MOST_FRUITLESS
        if hopeless or self.chosen.spent(source, 2) or not self.open[source]:
            return False
        partners = least_loaded(self.model, targets[self.chosen.left[targets] >= 2], self.model.bound_by(source))
        self.log.visited[partners] = True
        swap = best_swap(self.model, self.chosen.held, found, partners, self.usual)
        if swap is None:
            self._without_swap.add(source)
            return False
        evidence = {**self.evidence.of_broker(source), **self._evidence_of(judged)}
        self.chosen.swap(source, swap, self._why(source), evidence)
        return True

    def _fill(self, idle: int) -> None:
        """Bring an idle broker to the level from the brokers above it, the highest first. Without any traffic there
        nobody knows what it costs."""
        model, base, level = self.model, float(self.model.base[idle]), self.model.level
        if not self.snapshot.totals[idle, DRIVER_COLUMNS].any():
            level = min(level, base + (self.ceiling - base) / DEAREST)
        enough = level - float(find_slack(model.level, model.norm)) / PERMILLE * model.norm
        at_most = model.level + self.settings.steady.tolerance * model.norm
        bounds = Bounds(self.least, model.level - FILL_SLACK * model.norm, at_most)
        active = model.takes_part & (model.score > model.level) & (self.chosen.left > 0)
        while model.score[idle] < enough and active.any():
            source = self._next_to_give(active) if not self.chosen.spent(idle) else None
            if source is None:
                return
            judged = self._fitting(source, idle, bounds)
            best = judged.best() if judged is not None else None
            if judged is None or best is None:
                active[source] = False
            else:
                self.chosen.move_pair(judged, best, Reason.UNDERLOADED)
                active[source] = model.score[source] > model.level and self.chosen.left[source] > 0

    def _next_to_give(self, active: Bools) -> int | None:
        """The highest of these brokers that may have something to give; higher ones are no longer active. One that had
        nothing free has nothing, and for the same reason, until another namespace is closed."""
        score = self.model.score
        fresh = active & (self._barren != len(self.chosen.closed))
        if not fresh.any():
            return None
        source = int(np.argmax(np.where(fresh, score, -1.0)))
        active &= fresh | (score <= score[source])
        return source

    def _fitting(self, source: int, idle: int, bounds: Bounds) -> Judged | None:
        found = self._free_of(source)
        if found is None:
            return None
        relief = self._relief(found)
        if not relief.max() > 0:
            return None  # nobody uses any of them
        close = near(found, relief, float(self.model.score[source] - bounds.source_at_least))
        if self._has_only_small(source):
            bounds = bounds._replace(least=SMALLER * float(relief.max()))
        return evaluate(self.model, close, np.array([idle]), self.caps).within(bounds)

    def _open_targets(self, bundle: int) -> tuple[Ints, Floats]:
        """For a bundle that isolation forbids where it is: who may take something, and their scores with it."""
        model = self.model
        targets = np.flatnonzero(model.takes_part & (self.snapshot.target_block == ALLOWED) & (self.chosen.left > 0))
        avoided = np.broadcast_to(model.avoided(np.array([bundle]), targets), (1, len(targets)))[0]
        targets = targets[~avoided]
        return targets, model.with_(targets, model.work(np.array([bundle])))[0]

    def _repair(self, bundle: int, source: int, target: int, reason: Reason, evidence: dict[str, str]) -> None:
        evidence = {**self.evidence.of_broker(source), **evidence}
        self.chosen.move(bundle, source, target, reason, evidence)

    def _evidence_of(self, judged: Judged) -> dict[str, Any]:
        return self.evidence.of_pairs(judged, judged.pairs.candidates.source in self.log.sources)

    def _free_of(self, source: int) -> Candidates | None:
        """The source's bundles that may move; None when there are none, with the reason noted."""
        self.log.visited[source] = True
        found = self.chosen.held.free_of(source)
        if len(found.bundles):
            return found
        held = self.chosen.held.all_of(source)
        block = self.snapshot.bundle_block[held]
        blocked = block[block != ALLOWED]
        evidence: dict[str, Any] = {"bundles": len(held), "bundles_lost": count_reasons(blocked)}
        why = Reason.IN_FLIGHT if len(held) else Reason.NO_BUNDLES  # all that could move are named in this round
        if len(blocked):
            why = most_common_reason(blocked)
        elif namespace := self.chosen.closed_among(held):
            why, evidence["paced_by"] = Reason.BUDGET_SPENT, bucket_of_namespace(namespace)
        self.log.deny(source, self._unless_occupied(source, why), evidence)
        self._barren[source] = len(self.chosen.closed)
        return None

    def _why(self, source: int) -> Reason:
        return Reason.OVERLOADED if self.model.is_overloaded(source) else Reason.ABOVE_MEAN
