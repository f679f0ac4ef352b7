"""Facts that a log does not state but that follow from others, each with its reason.

`infer.py` calls the rest: the model shape from two lines about parameters, the tokens from an mfu, the vocabulary from
a first loss, the iterations that a printed time covers.
"""
