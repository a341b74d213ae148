"""The range bitmap index."""
