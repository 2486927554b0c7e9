"""The words of Ballast: ids, ring, ownership, entries, state, events, loads, decisions, overrides, errors, settings.

Values and pure functions, on the standard library alone. Everything else imports it; it imports nothing.
"""
