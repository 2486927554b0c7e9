"""The control step. In: the cluster's state and one batch of events. Out: journal entries, and decisions with evidence.

`step.step` is the entry point; a module for each kind of event. Pure: it imports domain and policy and reads no clock.
"""
