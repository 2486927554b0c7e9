"""Chaos on real processes: everything that Ballast consists of, clients at work, and a seeded nemesis."""
