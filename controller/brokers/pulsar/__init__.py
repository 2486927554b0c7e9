"""Reads an Apache Pulsar cluster over HTTP: its brokers, what each owns, and their load.

In: the web service addresses of a cluster and credentials. Out: load in the shape of Pulsar's own load reports for
either load manager, which `controller.loads.recorded` turns into load reports v1. Only `changes` and `switches` write.
A bad answer is a named outcome, never a traceback, and no secret appears in an error.
"""
