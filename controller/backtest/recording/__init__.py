"""Reads a recording into arrays, and computes once what all points need."""
