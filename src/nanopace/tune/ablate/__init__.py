"""`nanopace ablate`: measures which of the differing knobs of two configs made the difference."""
