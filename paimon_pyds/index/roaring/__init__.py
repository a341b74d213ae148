"""Serialized RoaringBitmaps, read and written by whole arrays."""
