"""Dashboards, alert rules and their runbook name what exists."""
