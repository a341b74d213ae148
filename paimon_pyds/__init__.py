"""Apache Paimon tables for Spark and for Arrow, without a jar."""
