"""Compact a table: small files into larger ones, deleted rows dropped, rows in a wished order."""
