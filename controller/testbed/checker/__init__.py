"""Checks from the store's files and the clients' logs whether a message was lost, stored twice or reordered."""
