"""Chooses the point to recommend, and says why and with what confidence."""
