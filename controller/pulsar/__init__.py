"""Apache Pulsar's own algorithms and forms on plain data and arrays. Comments "Surprise" mark unexpected behaviour.

Input: Pulsar's load data and settings. Output: what Pulsar would decide. Nothing here knows of rounds, journals or
strategies.
"""
