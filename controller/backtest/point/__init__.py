"""One point of the grid: a strategy's rounds over the whole recording, and the figures of that replay."""
