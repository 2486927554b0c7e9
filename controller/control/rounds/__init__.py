"""A finished round: `finished` journals it, `approvals` holds a large plan back, `carry_out` does what is still valid."""

from controller.control.rounds.finished import on_round

__all__ = ["on_round"]
