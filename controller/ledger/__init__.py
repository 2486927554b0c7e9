"""The Delta tables that hold what Ballast knows: created, committed to, folded and followed with delta-rs. No Spark."""

from __future__ import annotations
