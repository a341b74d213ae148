"""What keeps a table healthy: snapshots, tags and partitions that expire, tags, branches, rollback, verification."""
