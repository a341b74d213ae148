"""Tables as they are read, written and committed.

In: predicates and projections, or Arrow batches. Out: Arrow batches, or snapshots. Callers enter at `append`,
`rowlevel`, `compact` and `query`; `scan`, `read`, `write` and `commit` do the work and do not import one another;
`execution` spreads tasks over threads or Spark.
"""
