"""The usage model of a worker's rounds: read at the start, learned round by round, stored once its round is journaled.

A round names the hash of the model after it, and only a model whose hash the journal has named is stored. So a worker
that starts after a crash finds the model as it was after a journaled round: usually the newest, and it learns what the
one before it would have learned. No window is learned twice.
"""

from __future__ import annotations

import logging

import pyarrow as pa
from deltalake.exceptions import DeltaError

from controller.domain.errors import BallastError, describe_error
from controller.ledger.tables import TableRoot
from controller.ledger.usage_models import NoUsageModel, read_model, write_model
from controller.policy.usage.kept import Learned, hash_of, keep_best_known
from controller.policy.usage.model import UsageModel

log = logging.getLogger(__name__)


class LearnedUsage:
    """One worker's usage model. `round_at_ms`: of the newest journaled round when the worker starts."""

    def __init__(self, tables: TableRoot, round_at_ms: int) -> None:
        self._tables = tables
        self._kept = _read(tables, round_at_ms)
        self._hash = hash_of(self._kept)
        self._unstored = False
        self.model = self._kept.model  # all of it, of which the best known bundles are kept

    @property
    def hash(self) -> str:
        """Of the model as the last round left it."""
        return self._hash

    def learn(self, model: UsageModel, at_ms: int) -> str:
        """Take the model after a round; returns the hash that the round is to name. A window that was learned before,
        or an earlier one, teaches nothing."""
        if at_ms > self._kept.at_ms:
            self.model = model
            self._kept = Learned(keep_best_known(model), at_ms)
            self._hash = hash_of(self._kept)
            self._unstored = True
        return self._hash

    def begin_again(self) -> None:
        """Drop what was learned: rounds go on from the prior."""
        self._kept = Learned(at_ms=self._kept.at_ms)
        self._hash = hash_of(self._kept)
        self.model = self._kept.model

    def store(self, journaled_hash: str) -> None:
        """Store the model if the journal has named its hash. A failure is logged; the next round's model replaces all
        of it anyway."""
        if not self._unstored or journaled_hash != self._hash:
            return
        self._unstored = False
        try:
            write_model(self._tables, self._kept, self._hash)
        except (DeltaError, OSError, pa.ArrowException, BallastError) as error:
            log.warning("usage model not stored, the next round's will be: %s", describe_error(error))


def _read(tables: TableRoot, round_at_ms: int) -> Learned:
    try:
        learned = read_model(tables)
    except NoUsageModel as error:
        log.info("usage is learned from the beginning: %s", describe_error(error))
        return Learned()
    if learned.at_ms > round_at_ms:
        found = f"of a round at {learned.at_ms} ms, the journal's newest round is at {round_at_ms} ms"
        log.warning("usage is learned from the beginning: the stored model is another journal's: %s", found)
        return Learned()
    log.info("usage model of %d rounds read, the last at %d ms", learned.model.rounds, learned.at_ms)
    return learned
