"""What was read from immutable metadata files, kept for the next plan in this process."""

from __future__ import annotations

from paimon_pyds.caching import ByteLimitedCache

__all__ = ["METADATA_CACHE"]

METADATA_CACHE = ByteLimitedCache(256 << 20)
"""Decoded manifests and manifest lists of this process, by path and size. Names are unique, so nothing gets stale."""
