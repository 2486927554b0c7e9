"""What the demo shows: events in words, a live view, plain lines, the summary at the end."""
