"""Stored rounds, decided again: by the strategy that decided them, and by another one."""
