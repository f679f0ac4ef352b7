"""Turn text into ids and back: bytes, characters, a BPE trained on the corpus, and GPT-2's, with one interface.

`tokenizer.py` has that interface and the list of kinds; `base.py` is what they share. `nanogpt_meta.py` reads nanoGPT's
meta.pkl.
"""
