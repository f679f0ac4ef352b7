"""One file per command, with the command's name."""
