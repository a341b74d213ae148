"""Bit slices, which the BSI and the range bitmap hold."""
