"""`nanopace tune`: the fastest setting of a config on this machine, by short trials within a time budget."""
