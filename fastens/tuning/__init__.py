"""Random search of models for a table, within a time."""
