"""`nanopace ablate`: which of the knobs in which two configs differ made the difference, measured."""
