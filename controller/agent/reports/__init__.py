"""Load reports, and the splits that an agent proposes."""
