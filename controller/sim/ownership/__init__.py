"""One controller and its agents on one heap of timed events; the invariants that hold at every moment."""
