"""Deletion vectors: which rows of a data file are deleted, in 32-bit and 64-bit form, and the files that hold them."""
