"""Pulsar's own test cases against Ballast's implementation of its algorithms. `python -m benchmarks.conformance FILE`

Input: a file of cases. Output: how many pass, and the differences. Each kind of case has an adapter, which never sees
the expected results.
"""
