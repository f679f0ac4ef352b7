"""modded-nanogpt in all its eras and tracks, and parameter-golf, which prints the same rows."""
