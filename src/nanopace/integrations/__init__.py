"""Callbacks that put nanopace's clock into other trainers: `hugging_face.py` and `lightning.py`. See docs/clock.md."""
