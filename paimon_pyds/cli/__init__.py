"""The command line: each command is a method of `Table` or `Catalog`.

In: arguments, rows of CSV, JSON lines or Parquet. Out: text, JSON lines or files. `main` finds the command; its
arguments are in `arguments`, the commands in the modules named so; `mistakes` turns errors into sentences.
"""
