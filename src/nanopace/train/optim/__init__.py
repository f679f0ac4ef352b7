"""The optimizers: AdamW in nanoGPT's groups, AdamW that remembers in bfloat16, and Muon beside AdamW."""
