"""Text to tokens on disk, and tokens on disk to windows, without torch."""
