"""Why things are as they are: `lost_words` of a candidate that was passed over, `commanded` of who sent what and why."""
