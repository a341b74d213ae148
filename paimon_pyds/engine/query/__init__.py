"""Scans, answers from metadata and indexes, and the first rows in an order."""
