"""Load reports and split proposals of an agent."""
