"""SQL value expressions and conditions in Spark's dialect, over Arrow batches.

`bound` takes SQL text, Python values and pyarrow expressions to a `BoundExpression`, which evaluates on batches;
`condition` makes a predicate of a condition on a table, with leaves where statistics and indexes answer.
"""
