"""A simulated controller and its agents on one heap of timed events, and the invariants that always hold."""
