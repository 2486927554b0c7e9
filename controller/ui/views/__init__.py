"""What each view of the page shows, as small documents of plain values. Nothing here is HTML."""
