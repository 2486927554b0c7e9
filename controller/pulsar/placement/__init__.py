"""Which broker receives a bundle: filters and placement strategies of both managers."""
