"""The agent beside each broker: keeps the lease, follows the journal, hands bundles over, reports, answers lookups.

In: the journal and its feed, a `BrokerRuntime` (`brokers`). Out: heartbeats, broker events, load reports on Kafka. One
asyncio loop; `handover`, `session.lease` and `session.registration` are pure, and the simulator runs them too.
"""
