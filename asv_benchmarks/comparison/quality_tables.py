"""The tables on which losses of all libraries are compared: those that defaults may be chosen on, and those set aside.

The rule, written before any candidate was run: SET_ASIDE has the twelve tables of TabArena, which nothing is chosen on.
DEVELOPMENT has all others of the comparisons but for those that hold rows of a table set aside (dna_statlog: splice),
texts, images, queries and tables of more than 300 columns or 50 classes.
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
_OF_TABARENA = (
    "anneal", "bank_marketing", "california_housing", "caravan", "concrete", "credit_g", "diabetes", "diamonds",
    "mlc_churn", "oml_qsar_biodeg", "splice", "wine_quality",
)  # fmt: skip
_LEFT_OUT = (
    "covertype", "dna_statlog", "mnist", "mnist_14", "oml_one_hundred_plants_texture", "rank_lightgbm",
    "text_rt_polarity", "text_sms_spam", "usps_zip",
)  # fmt: skip
SET_ASIDE = {name: _ALL[name] for name in _OF_TABARENA}
DEVELOPMENT = {name: task for name, task in sorted(_ALL.items()) if name not in (*_OF_TABARENA, *_LEFT_OUT)}
TABLES = {**DEVELOPMENT, **SET_ASIDE}
