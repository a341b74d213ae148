"""The command line: each command is a method of `Table` or `Catalog`.

In: arguments, rows of CSV, JSON lines or Parquet. Out: text, JSON lines or files. `main` runs the
program, `program` has its groups, the modules named `…_commands` the commands, `parameters` what several of them take.
"""
