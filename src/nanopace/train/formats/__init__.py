"""Reads and writes other programs' weights: nanoGPT's ckpt.pt, Hugging Face directories, GPT-2 by name."""
