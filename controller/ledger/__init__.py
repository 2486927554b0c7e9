"""The Delta tables, with delta-rs and without Spark: create them, commit to them, fold and follow the journal.

In: journal entries, evidence, panes. Out: commits, the cluster state, averages. Nothing here decides anything.
"""

from __future__ import annotations
