"""What the store below the tables does: whether it keeps two writers apart, and whether it has room left."""
