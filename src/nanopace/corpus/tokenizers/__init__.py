"""Text to ids and back: bytes, characters, a BPE of the corpus' own, and GPT-2's, behind one face.

`tokenizer.py` is that face and knows the kinds; `base.py` is what they share. `nanogpt_meta.py` reads nanoGPT's
meta.pkl.
"""
