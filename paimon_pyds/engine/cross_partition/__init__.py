"""Cross-partition upsert: keys that may be in any partition."""
