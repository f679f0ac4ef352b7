"""Callbacks that add nanopace's clock to other trainers: `hugging_face.py` and `lightning.py`. See docs/clock.md."""
