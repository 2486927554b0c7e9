"""Reading a Pulsar cluster, against a stand-in that answers as real brokers were recorded to."""
