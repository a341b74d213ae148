"""Versions of a row in tables with a primary key: which files have to be merged, and how rows become one.

`files_to_merge` finds the files that overlap, `merger` merges them. `engine` has the merge engines deduplicate and
first-row, `partial_update` and `aggregated_columns` those by column, `aggregates` the aggregate functions; `changelog`
derives the changes.
"""
