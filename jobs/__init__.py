"""Spark applications: their entry points, and only the code that imports pyspark.

In: settings, Kafka topics. Out: batches handed to `controller`, load tables, maintenance. May import `controller` and
`schemas`.
"""
