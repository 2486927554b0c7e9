"""In how many rounds running each broker was too hot, by averages each time, so that a spike alone moves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import CODES
from controller.policy.view.snapshot import Snapshot

_SILENT = (CODES[Reason.NO_LOAD_DATA], CODES[Reason.OUTDATED_LOAD_DATA])


def count(snapshot: Snapshot, hot: NDArray[np.bool_], memory: Mapping[str, Any]) -> Ints:
    """[B] rounds running in which each broker was hot, this one ([B] `hot`) included; `memory["hits"]` is `remembered`.

    A round without data on a broker neither adds a hit nor takes one; a new incarnation starts at none.
    """
    before = np.zeros(len(snapshot.brokers), np.int64)
    kept: Mapping[str, Any] = memory.get("hits", {})
    for at, broker in enumerate(snapshot.brokers):
        incarnation, hits = kept.get(broker, (0, 0))
        before[at] = hits if incarnation == snapshot.incarnation[at] else 0
    silent = np.isin(snapshot.source_block, _SILENT)
    return np.where(snapshot.eligible & hot, before + 1, np.where(silent, before, 0))


def remembered(snapshot: Snapshot, hits: Ints) -> dict[str, list[int]]:
    """Broker id -> [incarnation, rounds running], of those that have any."""
    return {
        snapshot.brokers[at]: [int(snapshot.incarnation[at]), int(hits[at])] for at in np.flatnonzero(hits > 0).tolist()
    }
