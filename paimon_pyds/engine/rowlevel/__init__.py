"""DELETE, UPDATE, MERGE, and rows named by where they lie."""
