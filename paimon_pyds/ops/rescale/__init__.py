"""Rescale: another number of buckets."""
