"""The documents in files: text, JSONL, parquet and zip, in pieces that are small beside the memory."""
