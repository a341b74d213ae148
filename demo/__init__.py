"""`make demo`: real flights as a Paimon table with indexes, queried from Spark SQL and from Arrow."""
