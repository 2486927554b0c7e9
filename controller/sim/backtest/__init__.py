"""Strategies with their knobs, run over recorded load."""

from __future__ import annotations
