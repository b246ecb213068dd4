"""Forms of what is all that a program does, and so need not fuse with what stands around it.

`whole_program` chooses one: `mapped`, `mapped_apart`, `reduced_last`, `joined_last` and
`arranged_last` rewrite a traced program (`equations`; `pending` is what is put off), by the pieces
and words of a CPU (`pieces_cpu`) or a GPU (`pieces_gpu`, `exchanged_gpu`).
"""
