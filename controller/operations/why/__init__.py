"""Why things are as they are: `lost_words` of a candidate passed over, `commanded` of who sent what and why,
`overridden` of what overrides come to."""
