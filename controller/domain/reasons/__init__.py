"""Reason codes for people: a file of explanations for each severity band, their table, and codes put into words."""
