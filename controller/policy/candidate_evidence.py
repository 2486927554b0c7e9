"""Candidates for the evidence of strategies that judge no pairs: a source's largest bundles, and why each stayed.

Pulsar's shedders walk the bundles of a source by traffic, largest first, and place what they take afterwards. So for
each source the SHOWN largest are listed: with the target where one was taken, else with the rule that it lost by. Only
figures whose rows a round stores are used, so that a replay gives the same evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot

SHOWN = 20
_IN, _OUT = BUNDLE_FIELDS.index("throughput_in"), BUNDLE_FIELDS.index("throughput_out")


def with_candidates(snapshot: Snapshot, outcome: StrategyOutcome) -> tuple[Decision, ...]:
    """The outcome's decisions; the first one about each source has `candidates` where it has no `pairs`."""
    sources = {str(row["broker"]) for row in outcome.scores if row["source"]}
    if not sources or any("pairs" in d.evidence for d in outcome.decisions):
        return outcome.decisions
    targets = {d.bundle: d.target for d in outcome.decisions if d.kind is not DecisionKind.SKIP and d.bundle}
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    result: list[Decision] = []
    for decision in outcome.decisions:
        if decision.source in sources:
            sources.remove(decision.source)
            held = snapshot.bundles_of(index[decision.source])
            if len(held) and outcome.considered[held].all():
                rows = _rows(snapshot, held, targets, decision)
                decision = replace(decision, evidence={**decision.evidence, "candidates": rows})
        result.append(decision)
    return tuple(result)


def _rows(
    snapshot: Snapshot, held: Ints, targets: Mapping[str, str | None], decision: Decision
) -> Sequence[dict[str, Any]]:
    traffic = np.rint(snapshot.fields[held, _IN] + snapshot.fields[held, _OUT]).astype(np.int64)
    largest = np.argsort(-traffic, kind="stable")[:SHOWN]
    # of a source that gave something away the others stayed because that was enough; of one that did not, as it says
    stayed = decision.reason if decision.kind is DecisionKind.SKIP else Reason.ENOUGH_CHOSEN
    rows = []
    for at, bytes_per_s in zip(held[largest].tolist(), traffic[largest].tolist(), strict=True):
        name, block = snapshot.bundles[at], int(snapshot.bundle_block[at])
        lost = "" if name in targets else (stayed if block == ALLOWED else REASONS[block]).value
        rows.append({"bundle": name, "throughput": bytes_per_s, "target": targets.get(name), "lost_by": lost})
    return rows
