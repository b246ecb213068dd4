"""Forms of what is all that a program does, and so need not fuse with what stands around it.

`whole_program` chooses one: `by_library`, `mapped`, `mapped_apart`, `as_runs`, `reduced_last`,
`joined_last` and `arranged_last` rewrite a traced program (`equations`; `pending` is what is put
off). What they write it by is of a platform: `pieces_cpu`, `blocks_cpu`, `places_cpu` and
`arranged_cpu`, `pieces_gpu`, `arranged_gpu` and `exchanged_gpu`.
"""
