"""Client library of the reference brokers: producers and consumers that find and follow the owners of their topics."""
