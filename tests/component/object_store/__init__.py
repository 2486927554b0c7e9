"""The tables in an object store: a real S3 server of Python's, with locks and faults in front of it."""
