"""Files of older schemas: columns by field id, casts of values, filters taken back to what a file holds."""
