"""The control query: latency by stage, start-up on long journals, the step at size."""
