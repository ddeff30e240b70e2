"""Every kind of model, from the table to predictions; and what only some kinds do."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import fastens
from fastens import AFTLoss, Categories, Dart, EarlyStopping, Growth, LambdaRankLoss
from fastens.cli.models.models import (
    ELSEWHERE,
    FAMILIES,
    TEXT,
    Parameter,
    declarations,
    estimator_class,
    families,
    parameter_groups,
    parse_directions,
)
from fastens.cli.table import large
from fastens.cli.table.target import CLASSIFICATION
from fastens.files import csv_streams
from fastens.params.options import SHORT_FORMS
from reference.cli_kinds import BOTH, OF_COLUMNS, quick
from reference.report_pages import page


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), BOTH)
def test_train_predict_evaluate_explain(run, houses, write_csv, name, task):
    target, other = ("sold", "price") if task == CLASSIFICATION else ("price", "sold")
    path = write_csv(houses.drop_columns(other))
    done = run("train", path, "--target", target, "--model", name, *quick(name))
    assert (done.code, done.err) == (0, "")
    score, constant = re.search(
        rf"{'AUC' if task == CLASSIFICATION else 'RMSE'} +([\d.]+) +([\d.]+)", done.out
    ).groups()
    assert float(score) > 0.7 if task == CLASSIFICATION else float(score) < 0.7 * float(constant)
    assert isinstance(fastens.load("model.fastens"), type(estimator_class(name, task)()))
    assert run("predict", "model.fastens", path, "-o", "out.csv").code == 0
    predicted = pyarrow.csv.read_csv("out.csv")
    assert predicted.num_rows == 300
    if task == CLASSIFICATION:
        both = np.column_stack([predicted["probability no"], predicted["probability yes"]])
        np.testing.assert_allclose(both.sum(axis=1), 1)
    done = run("evaluate", "model.fastens", path)
    assert (done.code, done.err) == (0, "")
    done = run("explain", "model.fastens", path)
    assert (done.code, done.err) == (0, "")
    found = page()
    own = "Can the probabilities be trusted?" if task == CLASSIFICATION else "How large are the errors, and where?"
    assert found.headings[:3] == ["Scores", own, "Which columns matter?"]
    assert {"How do predictions depend on them?", "Why this prediction?", "The model"} <= set(found.headings)
    explains = hasattr(fastens.load("model.fastens"), "predict_contributions")
    assert ("contributions" in done.out) == explains == ("How do their values affect predictions?" in found.headings)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_COLUMNS)
def test_kinds_for_columns_of_one_kind(run, houses, write_csv, name):
    large = pa.array(np.asarray(houses["price"]) > 330)
    path = write_csv(houses.append_column("large", large).select([*OF_COLUMNS[name], "sold"]))
    done = run("train", path, "--target", "sold", "--model", name)
    assert done.code == 0
    assert float(re.search(r"AUC +([\d.]+)", done.out)[1]) > 0.7
    assert isinstance(fastens.load("model.fastens"), type(estimator_class(name, CLASSIFICATION)()))
    assert [run(*command).code for command in others(path)] == [0, 0, 0]


def others(path):
    """What is done with a model besides."""
    return (
        ("predict", "model.fastens", path, "-o", "out.csv"),
        ("evaluate", "model.fastens", path),
        ("explain", "model.fastens", path, "-o", "report.html"),
    )


@pytest.mark.slow
def test_every_public_estimator_is_a_kind_or_says_what_to_do(run, houses, write_csv):
    kinds = [kind for family in FAMILIES.values() for kind in family.kinds]
    elsewhere = {name: re.search(r"use fastens\.(\w+)\(", text)[1] for name, text in ELSEWHERE.items()}
    known = {type(kind()) for kind in kinds} | {getattr(fastens, kind) for kind in elsewhere.values()}
    public = {getattr(fastens, name) for name in fastens.__all__}
    assert known == {kind for kind in public if hasattr(kind, "set_params")} - {fastens.TableEncoder}
    path = write_csv(houses)
    for name, kind in elsewhere.items():
        done = run("train", path, "--target", "sold", "--model", name)
        assert done.code == 2
        assert f"--model {name}" in done.err
        assert f"In Python, use fastens.{kind}(" in done.err
    done = run("train", path, "--target", "sold", "--model", "oak")
    assert done.err.startswith("fastens: --model must be one of boosting, forest")


def test_every_option_is_a_parameter_of_some_model():
    classes = [kind for family in FAMILIES.values() for kind in family.kinds]
    known = {name for kind in classes for name in declarations(kind)}
    parameters = [parameter for group in parameter_groups().values() for parameter in group]
    assert [parameter.name for parameter in parameters if parameter.name not in known] == []
    options = [parameter.option for parameter in parameters]
    assert len(set(options)) == len(options)


def test_every_option_of_a_record_is_an_option_of_the_command_line():
    """Except those that only Python can express, and records of models that the commands do not train."""
    names = {parameter.name for group in parameter_groups().values() for parameter in group}
    for name, records in SHORT_FORMS.items():
        for record in {type(record): record for record in records.values()}.values():
            if not isinstance(record, LambdaRankLoss | AFTLoss):
                missing = {option for option in record.get_params() if f"{name}.{option}" not in names}
                assert missing <= {"validation"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n_jobs", "-1", -1),
        ("max_features", "0.5", 0.5),
        ("max_features", "3", 3),
        ("max_features", "sqrt", "sqrt"),
        ("max_depth", "none", None),
        ("smoothing", "none", "none"),
        ("bootstrap", "no", False),
        ("bootstrap", "balanced", "balanced"),
        ("growth.max_delta_step", "1e-1", 0.1),
        ("growth.forced_splits", "splits.json", "splits.json"),
    ],
)
def test_values_are_read_by_the_rules_of_the_parameter(name, text, value):
    read = Parameter(name).parse(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (
            ("--model", "forest", "--bootstrap", "stratified", "--max-samples", 0.5, "--max-features", "log2",
             "--criterion", "entropy", "--voting", "hard", "--min-samples-leaf", 0.02, "--min-samples-split", 4,
             "--ccp-alpha", 0.001, "--max-features-per-tree", 3, "--oob-score", "--min-impurity-decrease", 0.0001),
            {"bootstrap": "stratified", "max_samples": 0.5, "max_features": "log2", "criterion": "entropy",
             "voting": "hard", "min_samples_leaf": 0.02, "min_samples_split": 4, "ccp_alpha": 0.001,
             "max_features_per_tree": 3, "oob_score": True, "min_impurity_decrease": 0.0001},
        ),
        (("--model", "extra-trees", "--bootstrap", "no", "--max-features", "none"),
         {"bootstrap": False, "max_features": None}),
        (("--model", "tree", "--splitter", "random", "--max-depth", 3), {"splitter": "random", "max_depth": 3}),
        (("--model", "forest", "--interactions", "pairwise"), {"interaction_cst": "pairwise"}),
        (("--model", "adaboost", "--algorithm", "gentle", "--max-depth", 2), {"algorithm": "gentle", "max_depth": 2}),
        (("--model", "adaboost", "--resample"), {"resample": True}),
        (("--monotonic", "area:+1,rooms:-1", "--interactions", "pairwise", "--categories.encoding", "target"),
         {"monotonic_cst": {"area": 1, "rooms": -1}, "interaction_cst": "pairwise",
          "categories": Categories(encoding="target")}),
        (("--model", "naive-bayes", "--smoothing", "kt", "--feature-prior", 0.5),
         {"smoothing": "kt", "feature_prior": 0.5}),
        (("--model", "network", "--structure", "tan", "--criterion", "bdeu", "--max-parents", 2),
         {"structure": "tan", "criterion": "bdeu", "max_parents": 2, "max_bins": 8}),
        (("--model", "stacking", "--members", "tree,naive-bayes", "--final-estimator", "boosting", "--passthrough"),
         {"final_estimator": "boosting", "passthrough": True}),
        (("--model", "voting", "--members", "tree,naive-bayes", "--member-weights", "nnls"),
         {"voting": "soft", "weights": "nnls"}),
        (("--model", "bayes-optimal", "--members", "tree,naive-bayes"), {"refit": True}),
        (("--model", "aode", "--smoothing", "m", "--max-bins", 5), {"smoothing": "m", "max_bins": 5}),
        (("--boosting", "dart", "--sampling", "goss", "--categories.missing", "category"),
         {"boosting": "dart", "sampling": "goss", "categories": Categories(missing="category")}),
        (("--boosting", "dart", "--boosting.rate-drop", "0.2"), {"boosting": Dart(rate_drop=0.2)}),
        (("--linear-leaves", "--early-stopping", "--early-stopping.refit"),
         {"linear_leaves": True, "early_stopping": EarlyStopping(refit=True)}),
        (("--model", "forest", "--averaging", "posterior", "--categories.encoding", "target"),
         {"averaging": "posterior", "categories": Categories(encoding="target")}),
        (("--model", "weighted-majority", "--members", "tree,stump", "--algorithm", "weighted_majority", "--beta", 0.7),
         {"algorithm": "weighted_majority", "beta": 0.7}),
        (("--model", "gibbs", "--members", "tree,stump", "--noise", 0.2), {"noise": 0.2}),
        (("--model", "adaboost", "--algorithm", "m1", "--restart", "yes"), {"algorithm": "m1", "restart": True}),
        (("--growth.split-criterion", "squared_error"), {"growth": Growth(split_criterion="squared_error")}),
        (("--model", "cascade", "--max-layers", 1, "--members", "tree"), {"max_layers": 1}),
    ],
)  # fmt: skip
def test_parameters_reach_the_models(run, houses, write_csv, options, parameters):
    path = write_csv(houses.drop_columns("price"))
    done = run("train", path, "--target", "sold", *options)
    assert (done.code, done.err) == (0, "")
    found = fastens.load("model.fastens").get_params()
    assert {name: found[name] for name in parameters} == parameters
    assert bool(re.search("out-of-bag +accuracy", done.out)) == ("--oob-score" in options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "tree", "--n-estimators", 3), "--n-estimators does not apply to tree for classification"),
        (("--model", "forest", "--learning-rate", 1), "--learning-rate does not apply to forest"),
        (("--quantile", 0.5), "--quantile does not apply to boosting for classification"),
        (("--model", "forest", "--bootstrap", "perhaps"), "bootstrap"),
        (("--model", "forest", "--bootstrap", "no", "--oob-score"), "oob_score must be False without bootstrap"),
        (("--model", "voting", "--members", "tree,oak"), "for classification; got 'oak'"),
        (("--monotonic", "area"), "must be COLUMN:+1 or COLUMN:-1"),
        (("--monotonic", "width:+1"), "width"),
        (("--model", "text"), "--model text needs --text COL"),
        (("--text", "town", "--model", "naive-bayes"), "--text does not apply to naive-bayes for classification"),
        (("--text", "town,town"), "--text must name one column, unless --model names a family"),
        (("--text", "sold"), "--text must name a text column other than the target"),
        (("--text", "towm"), "Did you mean 'town'?"),
    ],
)
def test_mistakes(run, houses, write_csv, options, message):
    done = run("train", write_csv(houses.drop_columns("price")), "--target", "sold", *options)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_task_that_a_family_does_not_do(run, houses, write_csv):
    done = run("train", write_csv(houses), "--target", "price", "--model", "naive-bayes")
    assert done.err.startswith("fastens: --model must be one of boosting, forest")


def test_directions():
    assert parse_directions("a:+1,b:-1") == {"a": 1, "b": -1}
    assert parse_directions("built: day:1, a, b:-1") == {"built: day": 1, "a, b": -1}
    assert parse_directions("living\narea:+1") == {"living\narea": 1}


def test_texts(run, write_csv):
    spam, ham = (
        ["win a prize now", "you win money", "claim your prize"],
        ["see you at lunch", "lunch at noon", "on my way"],
    )
    table = pa.table({"message": (spam + ham) * 10, "kind": (["spam"] * 3 + ["ham"] * 3) * 10, "length": range(60)})
    path = write_csv(table)
    options = ("--stop-words", "at,my", "--ngrams", "1-2", "--text-features", "count", "--text-model", "complement")
    done = run("train", path, "--target", "kind", "--text", "message", *options, "--min-df", 2)
    assert (done.code, done.err) == (0, "")
    assert "1 (texts 1)" in done.out
    assert re.search(r"Most informative words\n *ham .*lunch.*\n *spam .*prize", done.out)
    model = fastens.load("model.fastens")
    assert (model.stop_words, tuple(model.ngram_range), model.features) == (["at", "my"], (1, 2), "count")
    new = write_csv(pa.table({"message": ["a prize", "lunch", None]}), "new.csv")
    assert run("predict", "model.fastens", new, "-o", "out.csv").code == 0
    assert pyarrow.csv.read_csv("out.csv")["prediction"].to_pylist()[:2] == ["spam", "ham"]
    assert "accuracy" in run("evaluate", "model.fastens", path).out
    assert run("train", path, "--target", "kind", "--text", "message", "--stemmer", "klingon").code == 2


@pytest.mark.parametrize("model", ["boosting", "forest", "stump"])
def test_texts_next_to_other_columns(run, write_csv, model):
    spam, ham = (["win a prize now", "you win money"], ["see you at lunch", "lunch at noon"])
    n = 30
    sender = [f"{kind} from {i}" for i in range(2 * n) for kind in ("mail", "post")]
    table = pa.table({"message": (spam + ham) * n, "sender": sender, "size": range(4 * n), "kind": [1, 1, 0, 0] * n})
    path = write_csv(table)
    given = ("--target", "kind", "--task", "classification", "--model", model)
    done = run("train", path, *given, "--text", "message,sender")
    assert (done.code, done.err) == (0, "")
    assert "texts 2" in done.out
    trained = fastens.load("model.fastens")
    assert trained.text_features == ["message", "sender"]
    assert {'message: "prize"', 'message: "lunch"', 'sender: "post"', "size"} <= set(trained.feature_parts_)
    new = write_csv(table.select(["message", "sender", "size"]).slice(0, 4), "new.csv")
    assert run("predict", "model.fastens", new, "-o", "out.csv").code == 0
    assert pyarrow.csv.read_csv("out.csv")["prediction"].to_pylist() == [1, 1, 0, 0]
    assert run("explain", "model.fastens", path, "-o", "page.html").code == 0


@pytest.fixture
def reviews():
    """Free text that determines the class, next to an address, a name and tags."""
    rng = np.random.default_rng(3)
    n, words = 200, np.array([f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(60)])
    kind = rng.integers(0, 2, n)
    texts = [" ".join([*rng.choice(words, rng.integers(6, 30)), ("bad", "good")[own]]) for own in kind]
    return pa.table(
        {
            "review": texts,
            "address": [f"{i} North main street, flat {i % 7}, Springfield, IL {60000 + i}" for i in range(n)],
            "name": [f"Mr. {a} Paul {b}" for a, b in rng.choice(["Ann", "Bo", "Cy"], (n, 2))],
            "tags": [";".join(rng.permutation(["tea", "cup", "pot", "mug"])[: rng.integers(1, 4)]) for _ in range(n)],
            "size": rng.normal(size=n),
            "kind": kind,
        }
    )


def features_of(table):
    """The columns that a model of the reviews reads."""
    items = ("cup", "mug", "pot", "tea")
    tags = {f"tags: {item}": [item in cell for cell in table["tags"].to_pylist()] for item in items}
    return pa.table({"review": table["review"], "name": table["name"], **tags, "size": table["size"]})


def test_free_text_is_found(run, write_csv, reviews, monkeypatch):
    path = write_csv(reviews)
    given = ("--target", "kind", "--n-estimators", 5)
    done = run("train", path, *given)
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert "Free text, split into words: 'review'. To use it as categories, use --column review:category" in text
    trained = fastens.load("model.fastens")
    assert trained.text_features == ["review"]
    assert 'review: "good"' in trained.feature_parts_
    expected = trained.predict_proba(features_of(reviews))
    assert run("predict", "model.fastens", path, "-o", "out.csv").code == 0
    assert "accuracy" in run("evaluate", "model.fastens", path).out
    monkeypatch.setattr(large, "LARGE_BYTES", 0)
    monkeypatch.setattr(csv_streams, "BLOCK_BYTES", 1 << 14)  # about a third of the rows
    assert run("train", path, *given, "--overwrite").code == 0
    np.testing.assert_array_equal(fastens.load("model.fastens").predict_proba(features_of(reviews)), expected)


def test_free_text_may_be_used_in_another_way(run, write_csv, reviews):
    path = write_csv(reviews)
    for given in (("--column", "review:category"), ("--drop", "review"), ("--model", "stump")):
        done = run("train", path, "--target", "kind", *given, "--overwrite")
        assert ("Free text" in done.out) == (given[0] == "--model"), given
    other = run("train", path, "--target", "kind", "--model", "naive-bayes", "--overwrite")
    assert "Free text: 'review'. To learn from its words, use --model boosting" in " ".join(other.out.split())
    found = run("compare", path, "--target", "kind", "--models", "tree,naive-bayes", "--folds", 2)
    assert "Free text, split into words" in found.out
    assert re.search(r"^ tree +[\d.]+ ", found.out, re.MULTILINE)
    assert re.search(r"^ naive-bayes +[\d.]+ ", found.out, re.MULTILINE)
    alone = write_csv(reviews.select(["review", "kind"]), "alone.csv")
    found = run("compare", alone, "--target", "kind", "--models", "tree,naive-bayes", "--folds", 2)
    assert "naive-bayes: it cannot use texts" in " ".join(found.out.split())


@pytest.mark.slow
def test_a_search_reads_free_text(run, write_csv, reviews):
    options = ("--trials", 1, "--folds", 2, "--models", "forest")
    assert run("tune", write_csv(reviews), "--target", "kind", *options).code == 0
    assert fastens.load("model.fastens").text_features == ["review"]


def test_the_text_family_does_not_support_tables():
    assert TEXT not in families(CLASSIFICATION)
