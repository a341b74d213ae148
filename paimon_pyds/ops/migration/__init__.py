"""Files of other tables and directories become an append table of Paimon, without their rows being written anew.

`migrate` does it, from a `sources` module's list of files: directories, `delta` or `iceberg` logs. `parquet_file`,
`orc_file` and `avro_file` check whether files can be taken as they are.
"""
