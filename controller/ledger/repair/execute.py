"""Carries a plan out, and sees that the tables then tell what the plan said."""

from __future__ import annotations

import logging

from controller.domain.errors import BallastError
from controller.domain.state_codec import encode
from controller.ledger.repair.plan import Plan, make_plan
from controller.ledger.repair.workshop import Workshop
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot

log = logging.getLogger(__name__)


def carry_out(plan: Plan, root: TableRoot, now_ms: int) -> str:
    """Carry the steps out; returns the address of the copies. Plan right before: somebody may have mended the tables.

    Raises BallastError when something is still damaged, or the journal tells another state than the plan said,
    DeltaError or OSError when a step fails; the copies are there in any case.
    """
    shop = Workshop(root, now_ms)
    for step in plan.steps:
        log.info("table %s: %s", step.table, step.what)
        step.carry_out(shop)
    touched = {step.table for step in plan.steps}
    for name in touched:
        shop.flush(name)
    left = [damage for damage in make_plan(root.again()).damage if damage.table in touched]
    if left:
        raise BallastError(
            f"table {left[0].table} is still damaged: {left[0].file} {left[0].what}; run `ballast repair` again, or "
            f"put the copies at {shop.place} back"
        )
    if plan.state is not None and encode(load_state(root)) != encode(plan.state):
        raise BallastError(
            "the repaired journal tells another state than planned: start nothing on these tables, and put the copies "
            f"at {shop.place} back"
        )
    return shop.place
