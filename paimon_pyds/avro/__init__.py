"""Avro object container files (Apache Avro specification 1.11): of manifests and of data files."""
