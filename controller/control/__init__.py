"""The control step. In: the cluster's state and one batch of events. Out: journal entries, and decisions with evidence.

`step.step` is its face; one module a kind of event. Pure: imports domain and policy, asks no clock.
"""
