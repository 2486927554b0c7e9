"""Realistic bugs, each as a patch with the tests that must fail on it. `python -m tests.mutants [NAME…]`

`patches/<class>/<name>.patch` begins with two lines that say what the bug does (`Bug:`) and which tests catch it
(`Caught by:`, paths as pytest takes them). The runner plants one bug after the other in a copy of the tree.
"""
