"""Snapshot → pruned files → splits."""
