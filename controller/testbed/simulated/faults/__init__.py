"""Faults that strike a simulated deployment beside those of `nemesis`: of brokers, of messages, and false records."""
