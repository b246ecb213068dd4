"""Convolutions of arrays {N, C, spatial...} with filters {channels, channels, spatial...}.

`api` and `integers` have the functions that operators call. `cost` chooses a form by sizes, and
`forms` and `winograd` compute it.
"""
