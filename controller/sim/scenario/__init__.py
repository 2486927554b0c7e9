"""Scenario files: text in, runs, figures and assertions out."""
