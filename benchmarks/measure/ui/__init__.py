"""The operators' page: the server's time for each view of a large cluster."""
