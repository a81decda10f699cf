"""Readers, one module a kind of source. A new kind is one module here and a line in `sources.READERS`.

Each module has `normalized(url, folder)`, which a catalog calls when it is loaded (BadUrl when it cannot be one),
`missing(url)`, a sentence when the file that the source needs is not there, and `open_reader(url, sql, params,
seconds=…)`, which gives a `RowReader`. That of a server which goes on when its client is gone also has
`for_attempt(url, name, seconds)` and `end_query(url)` (see `sources`). What several kinds share is in `address`,
`errors`, `halt` and `statement`.
"""
