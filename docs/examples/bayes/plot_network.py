"""
A Bayesian network and its probability tables
=============================================

Rain makes the grass wet, and so does the sprinkler, which runs less often when it rains. The probability tables are
estimated by counting, optionally with Laplace smoothing. A query returns the probability of a variable given any
evidence.
"""

import matplotlib.pyplot as plt
import pandas as pd

from fastens import BayesianNetwork

truth = BayesianNetwork.from_tables(
    {"rain": ["no", "yes"], "sprinkler": ["off", "on"], "grass": ["dry", "wet"]},
    {"sprinkler": ["rain"], "grass": ["rain", "sprinkler"]},
    {
        "rain": [0.8, 0.2],
        "sprinkler": [[0.6, 0.4], [0.99, 0.01]],
        "grass": [[[1.0, 0.0], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]],
    },
)
table = pd.DataFrame(truth.sample(5000, random_state=0), columns=truth.node_names_)
learned = BayesianNetwork({"sprinkler": "rain", "grass": ["rain", "sprinkler"]}).fit(table)

figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6), layout="constrained")
truth.plot(ax=left, tables=True)
left.set_title("true network")
learned.plot(ax=right, tables=True)
right.set_title("estimated from 5000 rows")

# %%
# Has it rained, if the grass is wet?
print(truth.query("rain", {"grass": "wet"}))
print(learned.query("rain", {"grass": "wet"}))
