"""The operators' page on real tables: what it tells, whom it lets in, what reaches the journal."""
