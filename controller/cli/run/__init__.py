"""Commands that run a process: job, agent, store, Kafka, maintenance."""
