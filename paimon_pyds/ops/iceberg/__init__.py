"""Iceberg metadata of a table, by which Iceberg's readers see its files.

In: a table's newest snapshot. Out: Iceberg's metadata file, manifest lists and manifests of the same state.
`publish` brings them up to date; `schema` and `values` convert types and values; `manifests` are the files; `rest`
shows them in a catalog of Iceberg.
`ops/after_commit` and the namespaces use `publish`, nobody uses the others.
"""
