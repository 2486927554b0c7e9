"""Clients of a real Pulsar cluster: they send at given rates, and tell what they lost, got twice or waited for.

In: a client address and rates by topic. Out: one log per client process, and a report over both sides. Producers and
consumers are processes of their own (`producer_program`, `consumer_program`), driven by lines on their standard input;
`Traffic` starts them. pulsar-client is imported by these programs alone, when they run.
"""
