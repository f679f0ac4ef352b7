"""Facts that a log does not state: they follow from others, each with its reason.

`infer.py` calls the rest: the shape behind two lines about parameters, the tokens behind an mfu, the vocabulary
behind a first loss, the iterations that a printed time covers.
"""
