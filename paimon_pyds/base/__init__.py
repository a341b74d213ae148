"""What every room uses, and what uses no room but `errors`.

In: Python values, options as text, Arrow arrays. Out: arrays, typed options, types, binary rows, cached values,
progress. Every room may use every module: `arrays`, `cache`, `checksums`, `options`, `progress`, `retry`, `row`,
`secrets`, `selection`, `text`, `types`, `varints`, `zones`. `frames` makes record batches of the rows of other
libraries; `sort` sorts any number of rows in bounded memory; `variant` has the
encoding of VARIANT values.
"""
