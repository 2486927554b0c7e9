"""A recording as arrays, and what every point reads of it, computed once."""
