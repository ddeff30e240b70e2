"""Shared parts of the docstrings of the naive Bayes classifiers: see `fill_docstring`."""

PARTS = {
    "alpha": """
alpha : float or array of shape (n_features,), default=1.0
    Pseudo-count with smoothing="laplace".
""",
    "prior": """
fit_prior : bool, default=True
    Learn the prior of the classes from the rows; otherwise it is uniform.
class_prior : array of shape (n_classes,), optional
    Prior of the classes.
""",
    "n_jobs": """
n_jobs : int or None, default=None
    Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them; results do not depend on it.
""",
    "binned": """
max_bins : int, default=8
    Most bins of a column of numbers: one for each distinct value, or quantiles where there are more. Bins are those of
    the first rows. The default was chosen on 12 tables: see docs/networks.md.
categorical_features : "from_dtype", "all", array or None, default="from_dtype"
    Columns of categories: by their type, all, a mask, indices or names, or none. The others hold numbers.
unseen : "ignore", "smooth" or "error", default="ignore"
    A category that `fit` did not see: treated as missing, given the probability of one with count 0, or ValueError.
""",
    "classes": """
classes_ : array of shape (n_classes,)
    The labels, sorted.
class_count_, class_log_prior_ : arrays of shape (n_classes,)
    Rows of each class, and the log of its prior.
""",
    "bins": """
n_categories_ : array of shape (n_features,)
    Categories, or bins, of each column.
bin_limits_ : list of n_features arrays or None
    The upper ends of the bins of a column of numbers, but for the last.
""",
    "raises": """
n_features_in_ : int
    Number of columns.

Raises
------
ValueError
    If a parameter or the data break a rule; the message names it.
""",
}
