"""Parquet data files: writing with a page index, reading whole row groups or single pages.

`writer` and `reader` are the format; `footer` and `page_index` read metadata, `prune` leaves row groups and pages out
by their statistics, `page_picks` chooses what is read of the others, `pages` and `gather_values` read single pages.
"""
