"""Hugging Face's Trainer, from files and from a console, and LLaMA-Factory."""
