"""Benchmarks of Ballast, and the pages generated from their results. `python -m benchmarks [NAME…]`

In: a built project. Out: files in `benchmarks/results/`, tables in `docs/`. May import everything except tests.
"""
