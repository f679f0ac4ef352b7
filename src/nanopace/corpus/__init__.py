"""Text to tokens on disk, and tokens on disk to windows, without torch.

`download/` fetches, `documents/` finds the texts in files of any kind, `tokenizers/` turn them into ids, `prepare/`
writes those as shards and goes on where it was interrupted, and `shards/` is what training reads.
"""
