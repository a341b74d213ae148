"""The bitmap index."""
