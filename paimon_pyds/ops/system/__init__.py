"""System tables: what the metadata says of a table."""
