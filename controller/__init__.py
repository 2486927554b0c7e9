"""Ballast: a load-balancing controller that lives outside the brokers it balances."""

from __future__ import annotations

__version__ = "0.2.0"
