"""Scenario files: reads commands, runs the simulation, prints figures and checks assertions."""
