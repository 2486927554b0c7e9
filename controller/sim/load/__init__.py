"""The load of a simulated cluster, its cost on brokers, and the brokers' reports of it."""
