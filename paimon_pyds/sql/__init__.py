"""SQL text, prunable predicates and computed expressions.

In: SQL text, and the columns of a table. Out: a predicate that statistics, indexes and rows can evaluate, or an
expression over batches. Other rooms use `expression.condition` (text to predicate), `expression.bound`, and of
`predicate` the modules `tree`, `prune` and `exact`; `text` is the only parser.
"""
