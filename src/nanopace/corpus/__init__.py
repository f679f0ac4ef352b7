"""Turns text into tokens on disk, and tokens on disk into windows, without torch.

`download/` fetches files, `documents/` finds the texts in files of any kind, `tokenizers/` turn them into ids,
`prepare/` writes the ids as shards (and resumes after an interruption), and training reads `shards/`.
"""
