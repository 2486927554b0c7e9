"""Was anything lost, stored twice or reordered? Reads the store's files and the clients' logs."""
