"""The field: small scenarios on which strategies are compared."""
