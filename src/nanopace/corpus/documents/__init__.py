"""The documents in files: text, JSONL, parquet and zip, in pieces that easily fit in memory."""
