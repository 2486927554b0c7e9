"""Where a bundle is split: its owner, who alone knows the loads of its topics, chooses the boundary. Pure.

For splits that it proposes the agent names the boundary at once. For splits that a round ordered it answers what the
halves carry, with the better boundary if there is one, and `controller/control/splits.py` takes that one (decision 8).
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.decision import Reason
from controller.domain.ids import Bundle, topic_hash


def choose_boundary(bundle: Bundle, loads: Mapping[str, float], reason: Reason) -> int | None:
    """The boundary of a split because of `reason`; `loads`: topic -> load. None where no boundary separates the topics.

    A bundle with too many topics is split by their number, whatever their load.
    """
    return boundary_by_load(bundle, dict.fromkeys(loads, 1.0) if reason is Reason.SPLIT_TOPICS else loads)


def boundary_by_load(bundle: Bundle, loads: Mapping[str, float]) -> int | None:
    """The boundary that splits the topics' load most evenly: the first hash of the upper half; None without one.

    Where no topic has any load, all topics count alike.
    """
    if not any(load > 0 for load in loads.values()):
        loads = dict.fromkeys(loads, 1.0)
    by_hash: dict[int, float] = {}
    for topic, load in loads.items():
        hash_ = topic_hash(topic)
        if bundle.contains(hash_):
            by_hash[hash_] = by_hash.get(hash_, 0.0) + max(load, 0.0)
    return find_balanced_boundary(bundle, by_hash)


def weigh_halves(bundle: Bundle, boundary: int, total: float, loads: Mapping[str, float] | None) -> dict[str, float]:
    """The load below and above a boundary, as `split_done` reports it, in the unit of `total`.

    By topic where `loads` has them, else by the width of the ranges; with the balanced boundary where there is one.
    """
    share = (boundary - bundle.lower) / (bundle.upper - bundle.lower)
    if loads is None:
        return {"lower_load": total * share, "upper_load": total * (1 - share)}
    share = _share_below(loads, boundary, share)
    result = {"lower_load": total * share, "upper_load": total * (1 - share)}
    best = boundary_by_load(bundle, loads)
    if best is not None:
        share = _share_below(loads, best, 0.5)
        result |= {"best_boundary": best, "best_lower_load": total * share, "best_upper_load": total * (1 - share)}
    return result


def _share_below(loads: Mapping[str, float], boundary: int, otherwise: float) -> float:
    """The share of the topics' load whose hashes are below the boundary; `otherwise` without any load."""
    whole = sum(loads.values())
    below = sum(load for topic, load in loads.items() if topic_hash(topic) < boundary)
    return below / whole if whole > 0 else otherwise
