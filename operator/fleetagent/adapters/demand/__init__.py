"""Where demand is read from, one kind of source a file."""
