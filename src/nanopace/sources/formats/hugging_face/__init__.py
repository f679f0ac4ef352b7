"""Hugging Face's Trainer, in files and on a console, and LLaMA-Factory."""
