"""Client library of the reference brokers: producers and consumers that follow the owners of their topics."""
