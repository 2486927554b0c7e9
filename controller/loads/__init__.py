"""Turns load reports into panes and rolling averages, with numpy and Arrow and without Spark.

In: raw Kafka records. Out: partial panes, rolling averages, and quarantined records with the rule that each one breaks.
"""
