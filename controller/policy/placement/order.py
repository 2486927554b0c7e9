"""The order in which brokers are preferred for a bundle: by load where a round has told of loads, else by count.

A *standing* says how a broker stands for one bundle; the least gets it, and the first place in which two differ is the
rule by which the other lost. Before both orders come the rules of placement: below every cap, the failure domain with
the least of an anti-affinity group, and of its brokers the one with the least.

By count: fewest bundles of the same namespace (a namespace spreads over all brokers; Pulsar:
loadBalancerDistributeBundlesEvenlyEnabled), the lower band of load score, fewest bundles in all, broker id.
By load: not overloaded, the lower band of the predicted score, fewest bundles of the same namespace, the lower
predicted score, fewest bundles in all, broker id. A bundle of unknown load looks at wide bands, so that a new namespace
spreads over all brokers that are about as loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT

SCORE_BAND = 0.05  # scores closer than this count as equal: a noisy average must not gather every orphan
FINE_BAND = 0.01  # of predicted scores, where the bundle's own load is known
MOST_TOLD = 5  # brokers that the evidence of a placement names

Standing = tuple[Any, ...]
_RULES = (Reason.BROKER_CAP, Reason.FAILURE_DOMAIN, Reason.ANTI_AFFINITY)
_BY_COUNT = (*_RULES, Reason.MORE_OF_NAMESPACE, Reason.MORE_LOADED, Reason.MORE_BUNDLES)
_BY_LOAD = (
    *_RULES, Reason.OVERLOADED, Reason.MORE_LOADED, Reason.MORE_OF_NAMESPACE, Reason.MORE_LOADED,
    Reason.MORE_BUNDLES,
)  # fmt: skip
_AFTER = 6  # place of the predicted score in a standing by load
_OF_NAMESPACE, _BUNDLES = 3, 5  # places in a standing by count


@dataclass(frozen=True, slots=True)
class Weighed:
    """A broker that a bundle was weighed up for."""

    broker: str
    standing: Standing
    by_load: bool

    @property
    def after(self) -> float | None:
        """Its predicted score with the bundle; None where it was weighed by count."""
        return self.standing[_AFTER] if self.by_load else None

    def told(self, winner: Weighed) -> dict[str, Any]:
        """The row of evidence."""
        row: dict[str, Any] = {"target": self.broker, "lost_by": rule_lost(self, winner)}
        if self.by_load:
            return {**row, "target_after": round(self.standing[_AFTER] * SCORE_UNIT)}
        return {**row, "of_namespace": self.standing[_OF_NAMESPACE], "bundles": self.standing[_BUNDLES]}


def rule_lost(loser: Weighed, winner: Weighed) -> str:
    """The first rule in which the two differ; empty for the winner itself, and where only the id decided."""
    rules = _BY_LOAD if winner.by_load else _BY_COUNT
    pairs = zip(rules, loser.standing, winner.standing, strict=False)
    return next((rule.value for rule, own, best in pairs if own != best), "")
