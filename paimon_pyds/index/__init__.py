"""File indexes: built while a data file is written, evaluated to find the rows that may match a predicate.

In: columns of a file, or a predicate and a container's bytes. Out: a container, or selected rows. Other rooms use
`keys` (values as indexes compare them), `build`, `container`, `evaluate`, which keeps containers open, and `aggregate`;
each kind is a module: `bloom`, `bitmap`, `bsi`, `range_bitmap`. Below them are `dictionary`, `probe`, `slices` (the
bits of numbers) and `roaring`.
"""
