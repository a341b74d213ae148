"""The distribution of rows over a table's files: how much these overlap, and advice on partition columns."""
