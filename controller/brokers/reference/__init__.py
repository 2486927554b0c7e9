"""The reference broker: capacity that throttles, topics, subscriptions, client connections, over a shared store."""
