"""The criteria of trees and stumps by their names."""

CRITERIA = {
    "gini": SQUARES, "squared_error": SQUARES, "entropy": ENTROPY, "log_loss": ENTROPY, "poisson": POISSON,
    "error": ERROR, "absolute_error": ABSOLUTE,
}
