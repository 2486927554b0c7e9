"""The vocabulary of Ballast: ids, ring, ownership, entries, state, events, loads, decisions, overrides, errors,
settings.

Values and pure functions on the standard library alone. Every other room imports this one; it imports none.
"""
