"""Gradient boosting on the histogram engine."""
