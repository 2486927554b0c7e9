"""What runs on more than this machine's processes: a Spark standalone cluster whose workers share nothing."""
