"""Who this process is and how long it may serve: registration, lease, heartbeats, departure, rivals."""
