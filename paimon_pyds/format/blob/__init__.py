"""Files of BLOB columns: ``data-….blob``, which hold the values of one column one after the other, and an index."""
