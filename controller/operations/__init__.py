"""What the command line and the pages ask of a cluster: overview, explanations, evidence, commands, liveness.

In: the Delta tables and Kafka. Out: values; printing is the command line's.
"""
