"""The segment store: durable topics, fences, cursors, behind a server of its own."""
