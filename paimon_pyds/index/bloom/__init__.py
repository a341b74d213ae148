"""The bloom filter index."""
