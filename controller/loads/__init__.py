"""A load report becomes panes and rolling averages; numpy and Arrow, no Spark.

In: raw Kafka records. Out: judged reports, partial panes, averages, quarantined records with the rule they broke.
"""
