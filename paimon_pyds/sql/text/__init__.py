"""Spark SQL text: tokens, literals, one parser and its tree, for filters, conditions, values, merge clauses, orders."""
