"""Avro data files: `container` has blocks of a file, `columns` decodes their records."""
