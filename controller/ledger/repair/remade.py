"""Tables whose rows their writers make again, with how that comes about."""

from __future__ import annotations

from schemas.control_tables import BROKERS, OVERRIDES, OWNERSHIP
from schemas.usage_table import USAGE_MODEL

FOLDS = (OWNERSHIP.name, BROKERS.name, OVERRIDES.name)
REMADE = dict.fromkeys(FOLDS, "the controller writes it again from the journal")
REMADE |= {USAGE_MODEL.name: "rounds learn it again"}
