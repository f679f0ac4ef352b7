"""Files from the network: the corpora that have a name, whole or not at all, and held against checksums."""
