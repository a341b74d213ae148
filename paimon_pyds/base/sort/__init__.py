"""Sorting by several columns, in bounded memory."""
