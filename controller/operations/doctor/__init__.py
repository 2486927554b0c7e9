"""What may be wrong with a cluster: tables, clocks, loads, rounds, disk, Kafka; each finding with its remedy."""
