"""Change data capture: messages of Debezium, Canal and Maxwell → rows of a table with their kinds.

``messages`` parses JSON, ``debezium``, ``canal`` and ``maxwell`` find the changes in it, ``values`` makes columns of
the table's types, ``convert`` puts these together. Texts come in, Arrow batches go out; nothing is written here.
"""
