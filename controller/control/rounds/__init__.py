"""A finished round: `finished` journals it, `approvals` holds large plans back, `carry_out` executes what is valid."""

from __future__ import annotations

from controller.control.rounds.finished import on_round

__all__ = ["on_round"]
