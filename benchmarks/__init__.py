"""Measuring Ballast, and the pages that are made of what was measured. `python -m benchmarks [NAME…]`

In: a built project. Out: files in `benchmarks/results/`, tables in `docs/`. May import everything but tests.
"""
