"""Forms of what is all that a program does, and so need not fuse with what stands around it.

`whole_program` chooses one. A module whose name ends in a platform is for that alone. What rewrites
a traced program (`equations`; `mapping` reads what moves nothing, `pending` is what is put off):
`by_library_cpu`, `mapped_cpu`, `mapped_gpu`, `mapped_apart_cpu`, `as_runs_gpu`, `reduced_last_gpu`,
`joined_last` and `arranged_last`. What they write it by: `pieces_cpu`, `blocks_cpu`, `places_cpu`
and `arranged_cpu`, `pieces_gpu`, `arranged_gpu` and `exchanged_gpu`.
"""
