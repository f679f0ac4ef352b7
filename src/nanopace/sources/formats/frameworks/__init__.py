"""Frameworks of larger groups: torchtitan, Megatron, litgpt, lingua, and autoresearch."""
