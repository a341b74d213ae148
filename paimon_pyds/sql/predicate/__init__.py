"""Predicates: conditions that statistics, indexes and rows can evaluate.

`tree` has their nodes, `bind` gives them types, `exact` evaluates rows, `prune` statistics; `disjunction` and `among`
are for long lists, `implied` and `relaxation` derive conditions on other columns, `to_sql` writes one as text.
"""
