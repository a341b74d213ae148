"""How rows lie in a table's files: how much these overlap, and what a partition would hold."""
