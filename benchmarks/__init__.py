"""Benchmarks: ours and a peer in one run, as ratios, with peak memory. Run them with `make bench`."""
