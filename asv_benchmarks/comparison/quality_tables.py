"""The tables on which losses of all libraries are compared: development tables, and tables that are set aside.

SET_ASIDE has twelve tables that no default is chosen on. They were drawn by lot on 2026-11-29, before the first trial
that they judge: of the tables below with at least 500 rows and at most 10 classes, in alphabetical order,
`np.random.default_rng(2026)` drew 8 of the 43 classification tables and then 4 of the 20 regression tables, without
replacement. DEVELOPMENT has all others, among them the twelve TabArena tables that were set aside until then. Texts,
images, queries, tables of more than 300 columns or 50 classes, and a copy of another table (dna_statlog: splice) are
in neither.
"""

from __future__ import annotations

from comparison import category_tables, posterior_tables
from comparison.category_tables import Task

_ALL: dict[str, Task] = {
    **category_tables.CHOOSING,
    **category_tables.REPORTING,
    **category_tables.FURTHER,
    **posterior_tables.CHOOSING,
    **posterior_tables.WIDER,
    **posterior_tables.REPORTING,
    **posterior_tables.CHOOSING_NUMBERS,
    **posterior_tables.REPORTING_NUMBERS,
}
_BY_LOT = (
    "ames_housing", "balance_scale", "bike_sharing_hour", "breast_w", "credit_a", "kddcup99_10pct", "kr_vs_kp",
    "monks2", "okc", "oml_wdbc", "pg15_claims", "reg_ailerons",
)  # fmt: skip
_LEFT_OUT = (
    "covertype", "dna_statlog", "mnist", "mnist_14", "oml_one_hundred_plants_texture", "rank_lightgbm",
    "text_rt_polarity", "text_sms_spam", "usps_zip",
)  # fmt: skip
SET_ASIDE = {name: _ALL[name] for name in _BY_LOT}
DEVELOPMENT = {name: task for name, task in sorted(_ALL.items()) if name not in (*_BY_LOT, *_LEFT_OUT)}
TABLES = {**DEVELOPMENT, **SET_ASIDE}
