"""Runs strategies with different settings over recorded load.

In: a recording (JSON lines or tables) and a grid of knobs. Out: a scoreboard, a recommendation, a report page.
"""
