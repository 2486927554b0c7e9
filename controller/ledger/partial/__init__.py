"""Reads as much of the cluster's state as a command asks for, in a fraction of the time that all of it takes."""

from __future__ import annotations
