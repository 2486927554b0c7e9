"""The field on which strategies are compared."""
