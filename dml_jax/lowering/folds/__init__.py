"""Reductions, as what is kept of the elements seen so far (`fold.Fold`), and how it is combined.

`one_value`, `extreme`, `log_sum_exp` and `index` say what DirectML's functions keep; `placed`
reduces, by `cpu`, by `gpu`, or on several devices; `packed` and `as_complex` make one thing of two.
"""
