"""Strategy `steady`, the default: few moves, each worth it, on what lasts."""
