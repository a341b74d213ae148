"""Create and alter tables."""
