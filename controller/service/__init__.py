"""The controller process without Spark: claims of journal and topics, batches, feed, projections, round worker.

In: settings, and records that Spark has read. Out: commits to the journal and its tables, the feed on Kafka, metrics.
"""
