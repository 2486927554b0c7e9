"""What the command line asks of a cluster: overview, explanations, evidence, commands, liveness.

In: the Delta tables and Kafka. Out: plain values; `cli` prints them.
"""
