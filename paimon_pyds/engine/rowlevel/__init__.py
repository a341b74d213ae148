"""DELETE, UPDATE, MERGE, and changes of rows named by file and position.

`delete`, `update`, `merge_into` and `replace_rows` each are one operation; `changes` publishes what it gives, and runs
it again after a conflict. `clauses` are a MERGE's, `merge_rows` finds its matches and counts them (two for one row are
an error), `tasks` look through files, `key_rows` writes versions of keys.
"""
