"""Values of VARIANT columns: Parquet's Variant Binary Encoding, version 1, by whole columns.

In: Arrow arrays of two binary children, ``metadata`` with the keys and ``value`` with the numbers of keys. Out: Python
values, JSON, parts of values at a path, and the same arrays built from Python values, from JSON and from typed columns.

A column is decoded level by level: all its values, then all items inside them, and so on; each level is some calls of
numpy and Arrow, however many values it has. Each level's sizes are held against the bytes that there are, so damaged or
hostile offsets give `CorruptFileError` and never a loop or more memory than the bytes warrant.

Other rooms use `nodes` (columns as such values), `python`, `json_text`, `paths`, `encode`, `build`; `shred` and `infer`
(parts as columns), `type_texts`.
"""
