"""Which bundles leave which broker: the shedders."""
