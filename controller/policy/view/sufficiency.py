"""Which brokers have reported enough to be judged. A silent broker alone is left out; the round goes on for the rest.

(Pulsar's TransferShedder skips the whole cluster when one broker has no load data.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import PolicySettings
from controller.policy.view.reason_codes import ALLOWED, CODES
from controller.policy.view.snapshot import NO_SCORE, Snapshot

MIN_REPORTS = 2  # a single report may be a start-up peak


def assess(snapshot: Snapshot, settings: PolicySettings) -> Snapshot:
    """Block brokers without fresh load data, as sources and as targets.

    NO_LOAD_DATA: fewer than MIN_REPORTS in the window, or no weighted resource with a known usage and limit.
    OUTDATED_LOAD_DATA: the newest report is older than `max_report_age_ms` at the time of the round.
    """
    sparse = (snapshot.reports < MIN_REPORTS) | (snapshot.score == NO_SCORE)
    old = snapshot.at_ms - snapshot.last_event_ms > settings.max_report_age_ms
    verdict = np.select(
        [snapshot.reports == 0, old, sparse],
        [CODES[Reason.NO_LOAD_DATA], CODES[Reason.OUTDATED_LOAD_DATA], CODES[Reason.NO_LOAD_DATA]],
        ALLOWED,
    )
    return replace(
        snapshot,
        source_block=np.where(snapshot.source_block == ALLOWED, verdict, snapshot.source_block),
        target_block=np.where(snapshot.target_block == ALLOWED, verdict, snapshot.target_block),
    )
