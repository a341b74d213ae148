"""Deletion vectors: which rows of a data file are deleted. `vector` is their codec, in 32-bit and 64-bit form;
`vector_files` writes the files that hold them, old deletions and new ones together.
"""
