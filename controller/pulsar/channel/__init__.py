"""The service-unit state channel of the extensible manager: states, conflicts, lookups, clean-up."""
