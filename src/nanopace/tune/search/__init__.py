"""`nanopace tune`: find the fastest settings for a config on this machine with short trials, within a time budget."""
