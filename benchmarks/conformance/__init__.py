"""Pulsar's own test cases against Ballast's form of its algorithms. `python -m benchmarks.conformance FILE`

In: a file of cases. Out: how many agree, and what differs. An adapter a kind; none of them sees what is expected.
"""
