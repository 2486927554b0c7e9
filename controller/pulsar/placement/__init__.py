"""Which broker gets a bundle: filters and placement strategies of both managers."""
