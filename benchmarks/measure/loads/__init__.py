"""The loads query: throughput, and from a report to its row."""
