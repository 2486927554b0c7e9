"""One point of the grid: runs the rounds of a strategy over the whole recording and computes the figures."""
