"""A broker that keeps ownership only, and the fence of a store it shares: for tests and the simulator."""
