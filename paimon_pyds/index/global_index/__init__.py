"""Global indexes: sorted files that map the values of a column to the row ids of a part of a table (Paimon 2).

In: the bytes of an index file, and a probe. Out: row ids, relative to the first row that the index covers. Other rooms
use `reader.open_global_index`; `btree_file` and `bitmap_file` are the two formats, `blocks` and `key_bytes` what both
have in common, and `range_meta` is what manifests hold of an index file.
"""
