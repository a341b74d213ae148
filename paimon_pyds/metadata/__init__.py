"""What a table says about itself: schemas, snapshots, manifests, splits, commit messages, deletion vectors.

In: metadata files as bytes. Out: frozen records and Arrow batches of manifest entries, and the other way round.
`store`, `manifest_store`, `schema.SchemaStore` and `partition_directories` do the I/O; all else is pure. Other rooms
use these, `paths`, `partition`, `planned_file`, `split` and `commit_message`; `evolution` reads files of older schemas;
`deletion` has the codec of deletion vectors.
"""
