"""HTML reports as single self-contained pages."""
