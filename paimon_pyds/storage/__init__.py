"""Byte storage: local disks and volumes, object stores. `open_file_io` chooses by the location's scheme."""

from __future__ import annotations

from paimon_pyds.storage.location import open_file_io

__all__ = ["open_file_io"]
