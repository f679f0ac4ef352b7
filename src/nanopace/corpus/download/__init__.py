"""Downloads the named corpora. Each file arrives complete or not at all, and is verified by checksum."""
