"""The tables on which averaging over prunings is compared: one group to choose the default prior on, one to report."""

from __future__ import annotations

from comparison.category_tables import Task

# Every default was chosen on the first group, before the second was looked at.
CHOOSING = {
    "breast_w": Task("Class"),
    "credit_a": Task("class"),
    "eeg_eye_state": Task("eye_state"),
    "heart_c": Task("num"),
    "mushroom": Task("class"),
    "oml_mozilla4": Task("target"),
    "oml_qsar_biodeg": Task("target"),
    "oml_yeast": Task("target"),
    "optdigits": Task("class"),
    "segment": Task("class"),
    "sick": Task("Class"),
    "spambase": Task("class"),
    "tic_tac_toe": Task("Class"),
    "titanic": Task("survived", left_out=("name", "ticket", "cabin")),
    "vehicle": Task("Class"),
    "vowel": Task("Class", left_out=("Train or Test",)),
}
REPORTING = {
    "adult": Task("income", left_out=("split",)),
    "bank_marketing": Task("y"),
    "car": Task("class"),
    "cmc": Task("Contraceptive_method_used"),
    "credit_g": Task("class"),
    "diabetes": Task("class"),
    "electricity": Task("class"),
    "higgs_23k": Task("label", left_out=("source",)),
    "kr_vs_kp": Task("class"),
    "letter": Task("class"),
    "nursery": Task("class"),
    "pendigits": Task("class"),
    "phoneme": Task("class"),
    "splice": Task("Class"),
    "telco_churn": Task("Churn"),
}
CHOOSING_NUMBERS = {
    "boston_housing": Task("medv", is_class=False),
    "concrete": Task("strength", is_class=False),
    "power_plant": Task("PE", is_class=False),
    "reg_autompg": Task("class", is_class=False),
    "reg_cpu_act": Task("usr", is_class=False),
    "skillcraft": Task("y", is_class=False),
    "wine_quality": Task("quality", is_class=False),
}
REPORTING_NUMBERS = {
    "abalone": Task("rings", is_class=False),
    "ames_housing": Task("Sale_Price", is_class=False),
    "bike_sharing_hour": Task("cnt", is_class=False, left_out=("casual", "registered")),
    "california_housing": Task("median_house_value", is_class=False),
    "diamonds": Task("price", is_class=False),
    "pol": Task("y", is_class=False),
    "reg_ailerons": Task("goal", is_class=False),
    "reg_elevators": Task("Goal", is_class=False),
}
