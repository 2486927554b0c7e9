"""Entry points of Spark applications, and only what imports pyspark."""
