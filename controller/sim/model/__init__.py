"""The ownership protocol as an explicit-state model: every interleaving of a small cluster, not a sample of them.

In: a configuration and its bounds. Out: the number of states, or the shortest way to one that must not be. The control
step and the agents' core are the real ones, called with one event at a time; only what lies between them is modelled.
"""
