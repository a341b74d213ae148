"""Tables with a primary key: what their rows need that others do not.

In: sorted runs, rows by key, a table's options. Out: merged rows, changelogs, bucket numbers. Other rooms use
`merge.merger` (versions to rows), `merge.engine` (merge engines), `merge.files_to_merge`, and `bucket.assigner`. The
engine calls these; nothing here reads or commits a table.
"""
