"""What somebody who watches the demo sees: events in words, the live picture, plain lines, the summary at the end."""
