"""How fast rounds may move: rate limits, and the pace between full speed and none."""
