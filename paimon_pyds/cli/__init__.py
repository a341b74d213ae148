"""The command line: each command is a method of `Table` or `Catalog`.

In: arguments, rows of CSV, JSON lines or Parquet. Out: text, JSON lines or files. `main` runs the program,
`program` has its groups, `read_commands`, `write_commands` and their neighbours the commands, `parameters` what
several of them take. No other room uses it.
"""
