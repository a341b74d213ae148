"""Data files of the format ``row``: rows one behind the other in compressed blocks."""
