"""The agent of a whole cluster that decides ownership itself (Apache Pulsar): it observes, and carries out orders.

In: orders of the journal, answers of the cluster's brokers. Out: events for the control step, requests to brokers.
`orders` and `observer` are pure; the simulation drives them as the agent does.
"""
