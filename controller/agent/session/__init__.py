"""The session of an agent: registration, heartbeats and lease, self-fencing, departure, rivals."""
