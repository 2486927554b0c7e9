"""What clients notice: hand-overs, failovers, rolling restarts, mass lookups, relief."""
