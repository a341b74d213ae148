"""ORC data files, by pyarrow."""
