"""`ballast demo`: its acts, its clients, its figures, when it is at rest."""
