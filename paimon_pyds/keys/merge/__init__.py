"""Versions of a row in tables with a primary key: which files have to be merged, and what may be filtered before."""
