"""The namespaces of `paimon_pyds.Table`: what it does beyond reading and writing rows, by kind.

In: a table and a user's arguments. Out: results of `paimon_pyds.ops`, to which every method delegates.
A module for each of ``table.tags``, ``branches``, ``snapshots``, ``index``, ``maintenance`` and ``system``.
Only `paimon_pyds.table` uses them; each is imported when its property is first read.
"""
