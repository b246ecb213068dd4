"""Reductions, as what is kept of the elements seen so far (`fold.Fold`), and how it is combined.

`one`, `extreme`, `log_sum_exp` and `index` say what DirectML's functions keep; `placed` reduces,
by `cpu`, by `gpu`, or on several devices.
"""
