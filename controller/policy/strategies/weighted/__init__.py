"""Strategy `weighted`: limits by configurable providers, and nothing else."""
