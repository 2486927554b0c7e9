"""A Kafka of three nodes with TLS, logins and ACLs: who may do what, and the whole system on it."""
