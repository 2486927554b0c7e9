"""What the simulated cluster carries, what that costs brokers, and what they report of it."""
