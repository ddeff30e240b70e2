"""Random search for models of a table within a time limit."""
