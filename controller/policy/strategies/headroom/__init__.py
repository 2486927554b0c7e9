"""Strategy `headroom`: relieve brokers that are full or well above the mean."""
