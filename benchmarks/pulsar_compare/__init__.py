"""Ballast side by side with Pulsar's own balancers, on a real cluster. `python -m benchmarks pulsar_compare`

In: the plays. Out: one file for each play in benchmarks/results/pulsar_compare/; those that exist are not played again.
A play is 20 minutes of the same load on a fresh cluster. `plays`, `load` and `figures` are pure.
"""
