"""The models in plain torch, GPT-2 as nanoGPT defines it and that of recipe `fast`, and text generation."""
