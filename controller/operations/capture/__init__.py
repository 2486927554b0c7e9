"""An incident's slice of the tables, written as tables of their own that every reader takes for a cluster's."""
