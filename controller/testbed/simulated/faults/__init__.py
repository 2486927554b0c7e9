"""Faults that strike a simulated deployment, beside those of `nemesis`: on the way of messages, and false records."""
