"""What a simulated broker measures of a bundle it splits: the load of both halves, and the balanced boundary."""

from __future__ import annotations

import numpy as np

from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.ids import Bundle
from controller.sim.load.cost_model import Floats
from controller.sim.load.workloads import Ints, Topics


def halves_of(topics: Topics, rates: Floats, bundle: Bundle, boundary: int) -> dict[str, float]:
    """Loads as agents report them in `split_done`, in messages/s. `rates`: [T], of every topic."""
    inside = (topics.hash >= bundle.lower) & (topics.hash < bundle.upper)
    inside &= np.array([name == bundle.namespace for name in topics.namespaces])[topics.namespace]
    hashes, loads = topics.hash[inside], rates[inside]
    result = _loads_of_halves("", boundary, hashes, loads)
    distinct, of = np.unique(hashes, return_inverse=True)
    summed = np.bincount(of, loads, len(distinct))
    best = find_balanced_boundary(bundle, dict(zip(distinct.tolist(), summed.tolist(), strict=True)))
    if best is not None:
        result |= _loads_of_halves("best_", best, hashes, loads) | {"best_boundary": best}
    return result


def _loads_of_halves(prefix: str, boundary: int, hashes: Ints, loads: Floats) -> dict[str, float]:
    lower = hashes < boundary
    return {f"{prefix}lower_load": float(loads[lower].sum()), f"{prefix}upper_load": float(loads[~lower].sum())}
