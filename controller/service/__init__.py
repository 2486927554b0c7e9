"""The controller process without Spark: the claim of journal and topics, batches, feed, projections, round worker.

In: settings, records that Spark has read. Out: commits to the journal and its tables, the feed on Kafka, metrics.
"""
