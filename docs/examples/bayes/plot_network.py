"""
A network with its tables
=========================

Rain makes the grass wet, and so does the sprinkler, which runs less when it rains. The tables are the shares counted
in the data, with Laplace's correction if asked for; a query asks for the probability of anything given anything.
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
left.set_title("the truth")
learned.plot(ax=right, tables=True)
right.set_title("counted in 5000 rows")

# %%
# Has it rained, if the grass is wet?
print(truth.query("rain", {"grass": "wet"}))
print(learned.query("rain", {"grass": "wet"}))
