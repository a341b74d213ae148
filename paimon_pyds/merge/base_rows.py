"""The versions of each key that count: where a delete has replaced all before it, it is the base that others add to.

Nothing is asked of versions before a base. Java takes them one after the other, and fails on a row that an aggregate
function can't take back even where a delete removes the row after that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_pyds.caching import cached_property
from paimon_pyds.merge.grouped_rows import Flags, Positions
from paimon_pyds.merge.versions import Versions


@dataclass(frozen=True)
class CountedVersions:
    """Versions of rows, with what a merge begins from.

    Attributes:
        versions: the rows by key and age.
        retract: of each place, whether its row takes a row away.
        base: of each key, the place whose row is taken as it is, with all its values; versions before it don't count.
            -1 for keys whose merge begins with no values.
        base_retracts: of each key, whether its base takes away from itself, after it was taken as it is.
    """

    versions: Versions
    retract: Flags
    base: Positions
    base_retracts: Flags

    @cached_property
    def is_base(self) -> Flags:
        """Of each place, whether it is a base."""
        found = np.zeros(len(self.retract), np.bool_)
        found[self.base[self.base >= 0]] = True
        return found

    @cached_property
    def is_retracting_base(self) -> Flags:
        """Of each place, whether it is a base that takes away from itself."""
        found = np.zeros(len(self.retract), np.bool_)
        found[self.base[self.base_retracts]] = True
        return found

    @cached_property
    def after_base(self) -> Flags:
        """Of each place, whether it is behind the base of its key, or its key has none."""
        return np.asarray(np.arange(len(self.retract)) > self.versions.of_each(self.base), np.bool_)

    @cached_property
    def added(self) -> Flags:
        """Of each place, whether its values count as added ones: the bases, and what is added after them."""
        return self.is_base | (self.after_base & ~self.retract)
