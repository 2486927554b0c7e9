"""A whole cluster on this machine, for the demo and the tests: Kafka, processes, fault proxy, checker, replay."""
