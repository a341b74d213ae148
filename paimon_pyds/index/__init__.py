"""File indexes: built beside a data file while it is written, asked which of its rows may match a predicate.

`config` says which indexes a table wants, `build` makes them, `container` packs them, `evaluate` asks them and keeps
them open. A module per kind: `bloom`, `bitmap`, `bsi`, `range_bitmap` (with its
`range_dictionary`). Below them are `keys` (values as indexes compare them), `dictionary` (distinct keys of a column),
`probe` (what a leaf of a predicate asks for) and `slices` (the bits of numbers).
"""
