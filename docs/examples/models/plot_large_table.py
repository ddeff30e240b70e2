"""
Train on a table in files
=========================

A table of many files is read in batches within a memory limit. The model is bit-identical to a model of the table in
memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fastens import GradientBoostingRegressor, TableSource, estimate_memory

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(40_000, 5)), columns=list("abcde"))
table["y"] = table["a"] * table["b"] + rng.normal(size=40_000)
for part in range(4):
    table[part::4].to_parquet(folder / f"part{part}.parquet")

model = GradientBoostingRegressor(n_estimators=20, random_state=0)
of_files = model.fit(TableSource(f"{folder}/*.parquet", max_memory="1GB"), "y").predict(table[list("abcde")])
whole = pd.concat([table[part::4] for part in range(4)])
assert (model.fit(whole[list("abcde")], whole["y"]).predict(table[list("abcde")]) == of_files).all()

# %%
# Estimate the memory of a fit before it starts:
rows = np.array([10**5, 10**6, 10**7, 10**8])
needs = [estimate_memory(GradientBoostingRegressor(), n_rows=int(n), n_columns=28) for n in rows]
print(needs[-1])
plt.loglog(rows, [each.in_memory / 1e9 for each in needs], marker="o", label="bin codes in memory")
plt.loglog(rows, [each.in_files / 1e9 for each in needs], marker="o", label="bin codes in files")
plt.xlabel("rows of 28 columns")
plt.ylabel("GB")
plt.legend()
plt.show()
