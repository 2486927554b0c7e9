"""Load data as brokers report it and as both managers keep it."""
