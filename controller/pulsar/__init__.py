"""Apache Pulsar's own algorithms on plain data and arrays; every surprise is commented.

In: Pulsar's load data and knobs. Out: what Pulsar would decide. Knows nothing of rounds, journals or strategies.
"""
