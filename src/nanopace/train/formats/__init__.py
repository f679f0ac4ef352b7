"""Weights of others, and ours for them: nanoGPT's ckpt.pt, Hugging Face's directories, GPT-2 by name."""
