"""Tables as they are read, written and committed.

In: predicates and projections, or Arrow batches. Out: Arrow batches, or snapshots. Callers enter at `append`,
`rowlevel`, `compact`, `query` and `stream`; `scan`, `read`, `write` and `commit` do the work and do not import one
another; `cross_partition` and `dynamic_buckets` find the buckets of keys that move; `execution` spreads tasks over
threads or Spark.
"""
