"""Operations on whole tables: each folder is one capability.

In: a table's store and the options of the operation. Out: a summary of the work. `table.Table`, the command line and
Spark's functions call them. They work through `engine` and `metadata`. `after_commit` is all that follows a commit, for
every caller.
"""
