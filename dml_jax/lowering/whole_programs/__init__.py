"""Forms of what is all that a program does, and so need not fuse with what stands around it.

`whole_program` chooses one: `mapped`, `joined_last` and `arranged_last` rewrite a traced program,
by the pieces and words of a CPU (`pieces_cpu`) or a GPU (`pieces_gpu`, `exchanged_gpu`).
"""
