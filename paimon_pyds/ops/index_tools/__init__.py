"""Look into file indexes, check them against the data, weigh them, and rewrite them."""
