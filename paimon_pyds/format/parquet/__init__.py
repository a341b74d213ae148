"""Parquet data files: writing with a page index, reading whole row groups or single pages."""
