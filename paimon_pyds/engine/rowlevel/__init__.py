"""DELETE, UPDATE, MERGE, and changes of rows named by file and position."""
