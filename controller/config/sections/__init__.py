"""The sections of the configuration file, a model each; their fields are the keys, declared with `key(...)`."""

from __future__ import annotations
