"""The agent beside each broker: lease, journal, hand-overs, load reports, lookups.

In: the journal and its feed, a `BrokerRuntime` (`brokers`). Out: heartbeats, broker events and load reports on Kafka.
One asyncio loop; `handover`, `session.lease` and `session.registration` are pure, and the simulator runs them too.
"""
