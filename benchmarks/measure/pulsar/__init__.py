"""A large Pulsar cluster, by a stand-in that answers as recorded brokers did: what it costs to observe it."""
