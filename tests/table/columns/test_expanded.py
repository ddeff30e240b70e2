"""Columns of texts and of lists, which become several numeric columns."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer

import fastens
from fastens import (
    AdaBoostClassifier,
    BaggingClassifier,
    BinnedTable,
    ConformalClassifier,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
    TableEncoder,
    TableSource,
    Texts,
    VotingClassifier,
)
from fastens.engine.parts import MappedRows, as_array
from fastens.table.columns import expanded
from fastens.table.columns.expanded import Elements, Words, sampled
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.target_statistics import Targets, TargetStatistics, Terms
from reference import expanded as twin
from reference.threads_comm import on_ranks

TEXTS = [
    "Good, good tea!", "bad tea", None, "", "Ünïcode ÜNÏCODE café cafe\u0301", "a 1 22 x_y", "naïve ½ ﬁsh",
    "bad bad bad", "日本語 テキスト", "🙂 good 🙂",
]  # fmt: skip
OPTIONS = [
    Texts(),
    Texts(max_terms=3),
    Texts(ngram_range=(1, 3)),
    Texts(ngram_range=(2, 2), max_terms=5),
    Texts(analyzer="char", ngram_range=(2, 3)),
    Texts(analyzer="char", ngram_range=(3, 3), max_terms=7),
    Texts(analyzer=";"),
]


def learned(texts, options):
    found = Words.learned(options, {text for text in texts if text is not None})
    return found, *found.read(texts, "'a'")


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_terms_and_counts(options):
    found, lengths, counted = learned(TEXTS, options)
    of_twin = options.analyzer, *options.ngram_range
    assert found.terms == twin.vocabulary(TEXTS, options.max_terms, *of_twin)
    np.testing.assert_array_equal(counted.toarray(), twin.counts(TEXTS, found.terms, *of_twin))
    assert np.isnan(lengths).tolist() == [text is None for text in TEXTS]


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 4)])
def test_counts_are_those_of_scikit_learn(analyzer, ngram_range):
    texts = ["the tea is good, the cup is not", "no  tea\nto-day!", "Tea for two & two for tea", "x"]
    own, _, counted = learned(texts, Texts(analyzer=analyzer, ngram_range=ngram_range))
    by_name = {"word": "word", "char": "char_wb"}
    other = CountVectorizer(analyzer=by_name[analyzer], ngram_range=ngram_range)
    expected = other.fit_transform(texts).toarray()
    assert own.terms == other.get_feature_names_out().tolist()
    np.testing.assert_array_equal(counted.toarray(), expected)


def test_lengths_are_words_characters_or_items():
    for analyzer, expected in [("word", [2, 0]), ("char", [7, 1]), (";", [2, 0])]:
        _, lengths, _ = learned(["ab; cd;", ";"], Texts(analyzer=analyzer))
        assert lengths.tolist() == expected


def test_a_sample_does_not_depend_on_how_it_was_drawn(monkeypatch, rng):
    monkeypatch.setattr(expanded, "MAX_SAMPLE", 20)
    texts = [f"text {i}" for i in range(100)]
    whole = sampled(set(texts))
    assert len(whole) == 20
    halves = sampled(set(texts[:50])) | sampled(set(texts[50:]))
    assert sampled(halves) == whole
    few = {"a", "b"}
    assert sampled(few) == few


# In models --------------------------------------------------


@pytest.fixture
def table(rng):
    n = 200
    vocabulary = [f"word{i}" for i in range(30)]
    y = rng.integers(0, 2, n)
    mood = np.where(y ^ (rng.random(n) < 0.1), "Great", "awful")
    reviews = [f"{mood[i]} {' '.join(rng.choice(vocabulary, 6))}" if rng.random() > 0.1 else None for i in range(n)]
    price = rng.normal(size=n) + y
    kind = rng.choice(["tea", "milk"], n)
    return pd.DataFrame({"price": price, "review": reviews, "kind": kind}), y


def fitted(X, y, model=GradientBoostingClassifier, **parameters):
    parameters = {"text_features": ["review"], "n_estimators": 10, "random_state": 0, "n_jobs": 1} | parameters
    return model(**parameters).fit(X, y)


def test_names_say_the_word(table):
    X, y = table
    model = fitted(X, y)
    assert model.n_features_in_ == 3
    names = model.feature_parts_
    assert names[:3] == ["price", "review: length", "kind"]
    assert names[3:] == [f'review: "{term}"' for term in twin.vocabulary(X["review"], 1000)]
    by_word = dict(zip(names, model.importances(parts=True), strict=True))
    assert max(by_word, key=by_word.get) in ('review: "great"', 'review: "awful"')
    assert model.feature_importances_[1] == pytest.approx(sum(by_word[n] for n in names if n.startswith("review")))


def test_explanations_by_word_and_by_column(table):
    X, y = table
    model = fitted(X, y)
    by_word, by_column = model.explain(X[:20], parts=True), model.explain(X[:20])
    assert list(by_word.feature_names) == model.feature_parts_
    total = by_word.values.sum(axis=1)
    np.testing.assert_allclose(by_column.values.sum(axis=1), total, rtol=1e-12)
    np.testing.assert_allclose(total + by_word.base_values, model.decision_function(X[:20]), rtol=1e-12)
    said, given = by_column.display_data[:, 1], X["review"][:20]
    assert [text for text in said if not pd.isna(text)] == given.dropna().tolist()
    grouped = model.explain(X[:20], groups={"product": ["price", "kind"]})
    assert list(grouped.feature_names) == ["product", "review"]
    np.testing.assert_allclose(grouped.values.sum(axis=1), total, rtol=1e-12)


def test_groups_of_words(table):
    X, y = table
    model = fitted(X, y)
    by_word, by_column = model.explain(X[:20], parts=True), model.explain(X[:20])
    place = model.feature_parts_.index('review: "great"')
    others = [name for name in model.feature_parts_[3:] if name != 'review: "great"']
    alone = model.explain(X[:20], groups={"praise": ['review: "great"']} | {name: [name] for name in others})
    np.testing.assert_allclose(alone.values[:, 0], by_word.values[:, place], atol=1e-12)
    moods = model.explain(X[:20], groups={"mood": ['review: "great"', 'review: "awful"'], "rest": ["price", "kind"]})
    assert list(moods.feature_names) == ["mood", "rest", "review"]
    np.testing.assert_allclose(moods.values.sum(axis=1), by_column.values.sum(axis=1), rtol=1e-12)
    assert moods.display_data[0].tolist() == ["2 parts", "2 columns", X["review"][0]]
    whole = model.explain(X[:20], groups={"text": [name for name in model.feature_parts_ if name.startswith("review")]})
    np.testing.assert_allclose(whole.values[:, 0], by_column.values[:, 1], atol=1e-12)
    assert whole.display_data[0, 0] == X["review"][0]
    for wrong in (["review", 'review: "great"'], ['review: "great"'] * 2):
        with pytest.raises(ValueError, match="each column once; got 'review: \"great\"' twice"):
            model.explain(X, groups={"a": wrong})


def test_every_library_gives_the_same_model(table, tmp_path):
    X, y = table
    expected = fitted(X, y).predict_proba(X)
    pq.write_table(pa.Table.from_pandas(X), tmp_path / "x.parquet", row_group_size=64)
    arrow = pa.Table.from_pandas(X)
    frames = [pl.from_pandas(X), arrow, X.assign(review=X["review"].astype("category")), X.convert_dtypes()]
    frames.append(X.assign(review=X["review"].astype("string")))
    for frame in frames:
        np.testing.assert_array_equal(fitted(frame, y).predict_proba(frame), expected)
    model = fitted(str(tmp_path / "x.parquet"), y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(str(tmp_path / "x.parquet")), expected)
    np.testing.assert_array_equal(fitted(TableSource(X, max_memory="400MB"), y).predict_proba(X), expected)


def test_arrays_of_objects_name_texts_by_position(table):
    X, y = table
    array = X.to_numpy(dtype=object)
    model = fitted(array, y, text_features=[1], categorical_features=[2])
    np.testing.assert_array_equal(model.predict_proba(array), fitted(X, y).predict_proba(X))
    mask = fitted(X, y, text_features=[False, True, False])
    np.testing.assert_array_equal(mask.predict_proba(X), model.predict_proba(array))


def test_large_sparse_and_small_dense_tables_agree(table, monkeypatch):
    X, y = table
    dense = InputEncoder.learn(X, Reading(text_features=["review"]), "a model")[1]
    expected = fitted(X, y).predict_proba(X)
    monkeypatch.setattr("fastens.table.encoder.CONVERTED_BLOCK", 1)
    large = InputEncoder.learn(X, Reading(text_features=["review"]), "a model")[1]
    assert issparse(large)
    assert isinstance(dense, np.ndarray)
    np.testing.assert_array_equal(large.toarray(), dense)
    np.testing.assert_array_equal(fitted(X, y).predict_proba(X), expected)


def test_rows_threads_and_batches_do_not_matter(table):
    X, y = table
    model = fitted(X, y, n_jobs=2)
    expected = fitted(X, y).predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    rows = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(30)])
    np.testing.assert_array_equal(rows, expected[:30])
    shuffled = np.random.default_rng(1).permutation(len(y))
    again = fitted(X.iloc[shuffled], y[shuffled])
    assert again.feature_parts_ == model.feature_parts_
    np.testing.assert_array_equal(again.predict_proba(X), expected)


def test_weights_count_as_copies(table):
    X, y = table
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    off = {"early_stopping": False, "text_features": Texts(["review"], max_terms=9)}
    other = fitted(X.iloc[copies], y[copies], **off)
    one = clone(other).fit(X, y, sample_weight=weight)
    assert one.feature_parts_ == other.feature_parts_
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_unseen_words_and_missing_texts(table):
    X, y = table
    model = fitted(X, y)
    rows = X[:1]
    unseen = model.predict_proba(rows.assign(review="never heard of these"))
    np.testing.assert_array_equal(unseen, model.predict_proba(rows.assign(review="not one word known")))
    missing = [rows.assign(review=value) for value in (None, np.nan, pd.NA)]
    for other in missing[1:]:
        np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(missing[0]))
    good, bad = (model.predict_proba(rows.assign(review=text))[0, 1] for text in ("GREAT!", "awful..."))
    assert good > bad


def test_models_are_saved_with_their_vocabulary(table, tmp_path):
    X, y = table
    for chosen in (["review"], Texts(["review"], "char", (2, 3), 50)):
        model = fitted(X, y, text_features=chosen)
        model.save(tmp_path / "m.fastens")
        again = fastens.load(tmp_path / "m.fastens")
        assert again.feature_parts_ == model.feature_parts_
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_damaged_states_are_refused():
    encoder = InputEncoder.learn(pd.DataFrame({"a": ["x y zz", "zz yy"]}), Reading(text_features=["a"]), "a model")[0]
    state = json.loads(json.dumps(encoder.to_state()))
    assert InputEncoder.from_state(state).part_names() == encoder.part_names() == ["a: length", 'a: "yy"', 'a: "zz"']
    own = state["expanded"][0][1]
    for change in ({"terms": ["b", "a"]}, {"terms": [1]}, {"ngram_range": [2, 1]}, {"analyzer": ""}, {"more": 1}):
        with pytest.raises(ValueError, match="malformed"):
            InputEncoder.from_state(state | {"expanded": [[0, own | change]]})
    for broken in ([1, own], [0, {"size": 0}]):
        with pytest.raises(ValueError, match="malformed"):
            InputEncoder.from_state(state | {"expanded": [broken]})


# Mean targets of terms --------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "sparse", "batches"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_scores_of_texts_equal_their_twin(rng, kind, n_targets):
    n = 60
    counts = rng.poisson(0.5, (n, 4)).astype(float)
    X = np.column_stack([rng.normal(size=n), counts.sum(axis=1), counts])
    X[3, 1:] = [np.nan, 0, 0, 0, 0]
    y, weight = rng.normal(size=(n_targets, n)), rng.uniform(0.5, 2, n)
    weight /= weight.mean()
    made = {"array": lambda: X, "sparse": lambda: csr_matrix(X), "batches": lambda: MappedRows(csr_matrix(X), cut, 6)}

    def cut(start, part):
        return part

    targets, terms = Targets(y, weight), [Terms(1, 2, 4)]
    statistics, rows = TargetStatistics.learn(made[kind](), targets, [], "target", 0, terms)
    assert issparse(rows) == (kind == "sparse")
    rows, again = as_array(rows), as_array(statistics.transform(made[kind]()))
    np.testing.assert_array_equal(rows[:, :6], X)
    for target in range(n_targets):
        means = twin.scores_of_texts(X[:, 2:], y[target], weight)
        of_others = twin.scores_of_texts(X[:, 2:], y[target], weight, targets.folds(0))
        for found, expected in ((rows, of_others), (again, means)):
            assert np.isnan(found[3, 6 + target])
            np.testing.assert_allclose(np.delete(found[:, 6 + target], 3), np.delete(expected, 3), atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_with_mean_targets_do_not_depend_on_how_rows_are_read(table, tmp_path, monkeypatch, n_classes):
    X, y = table
    y = (y + (X["price"] > 1)) if n_classes == 3 else y
    X = X.assign(place=np.arange(len(y)) % 40).astype({"place": str})  # enough categories for mean targets
    given = {"categories": fastens.Categories("target"), "text_features": ["review"]}
    model = fitted(X, y, **given)
    expected = model.predict_proba(X)
    means = [name for name in model.feature_parts_ if name.startswith("review: mean")]
    assert means == ["review: mean target"] * (1 if n_classes == 2 else 3)
    np.testing.assert_allclose(
        model.explain(X[:9]).values.sum(axis=1), model.explain(X[:9], parts=True).values.sum(axis=1)
    )
    pq.write_table(pa.Table.from_pandas(X), tmp_path / "x.parquet", row_group_size=64)
    streamed = fitted(str(tmp_path / "x.parquet"), y, **given)
    np.testing.assert_array_equal(streamed.predict_proba(X), expected)
    half = [slice(0, 70), slice(70, None)]

    def on_rank(comm):
        own = clone(model)
        with own._using_comm(comm):
            return own.fit(X[half[comm.rank]], y[half[comm.rank]])

    np.testing.assert_array_equal(on_ranks(2, on_rank)[0].predict_proba(X), expected)
    model.save(tmp_path / "m.fastens")
    np.testing.assert_array_equal(fastens.load(tmp_path / "m.fastens").predict_proba(X), expected)
    monkeypatch.setattr("fastens.table.encoder.CONVERTED_BLOCK", 1)
    np.testing.assert_array_equal(fitted(X, y, **given).predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_mean_targets_are_for_texts_with_many_terms(rng):
    """Mean targets let trees learn from words that are too rare for separate splits."""
    words = np.array([f"w{i}" for i in range(400)])
    worth, chosen = rng.normal(size=400), rng.integers(0, 400, (800, 8))
    X = pd.DataFrame({"t": [" ".join(words[row]) for row in chosen]})
    y = worth[chosen].sum(axis=1)
    half, given = slice(0, 600), {"text_features": ["t"], "n_estimators": 30, "n_jobs": 1}
    found = GradientBoostingRegressor(**given).fit(X[half], y[half])
    assert found.feature_parts_[-1] == "t: mean target"
    plain = GradientBoostingRegressor(**given, categories=fastens.Categories("partition")).fit(X[half], y[half])
    assert not any("mean" in name for name in plain.feature_parts_)
    assert found.score(X[600:], y[600:]) > plain.score(X[600:], y[600:]) + 0.1
    few = GradientBoostingRegressor(**given | {"text_features": Texts(["t"], max_terms=32)}).fit(X[half], y[half])
    assert not any("mean" in name for name in few.feature_parts_)


def test_damaged_scores_are_refused():
    statistics = TargetStatistics([], [], np.empty((0, 1)), [Terms(0, 1, 2)], [np.ones((2, 1))])
    arrays = statistics.to_arrays()
    assert TargetStatistics.from_arrays(arrays).terms == statistics.terms
    for change in ({"terms": -arrays["terms"]}, {"terms": arrays["terms"][0]}, {"term_scores": np.ones((1, 1))}):
        with pytest.raises(ValueError, match="statistics of the texts are malformed"):
            TargetStatistics.from_arrays(arrays | change)


@pytest.mark.parametrize("model", [RandomForestClassifier, ExtraTreesClassifier, AdaBoostClassifier])
def test_forests_and_adaboost_learn_words(table, model):
    X, y = table
    found = fitted(X, y, model, n_estimators=20)
    assert found.score(X, y) > 0.8
    assert fitted(X, y, model, n_estimators=20, n_jobs=2).score(X, y) == found.score(X, y)


def test_other_estimators_learn_words(table):
    X, y = table
    tree = DecisionTreeClassifier(text_features=["review"], max_depth=3).fit(X, y)
    assert 'review: "great"' in tree.to_text() or 'review: "awful"' in tree.to_text()
    scores = IsolationForest(text_features=["review"], n_estimators=5, random_state=0).fit(X).score_samples(X)
    assert np.isfinite(scores).all()
    assert fitted(X, y, categories=fastens.Categories("target")).score(X, y) > 0.8
    members = [("boosting", fitted(X, y)), ("tree", tree)]
    assert VotingClassifier(members).fit(X, y).score(X, y) > 0.8
    bagged = BaggingClassifier(fitted(X, y), n_estimators=2, random_state=0)
    assert bagged.fit(X, y).score(X, y) > 0.8


def test_two_ranks_learn_the_vocabulary_of_the_whole_table(table):
    X, y = table
    reading = Reading(text_features=["review"], splits_lists=True)
    X = X.assign(tags=[["a", "b"][: i % 3] for i in range(len(y))])
    whole = InputEncoder.learn(X, reading, "a model")[0]

    def learn(comm):
        return InputEncoder.learn(X[comm.rank :: comm.size], reading, "a model", comm=comm)[0].to_state()

    for state in on_ranks(3, learn):
        assert state == whole.to_state()


def test_binned_tables_hold_words(table, tmp_path):
    X, y = table
    expected = fitted(X, y).predict_proba(X)
    binned = BinnedTable.from_source(X, y, text_features=["review"])
    for text_features in (None, ["review"]):
        model = fitted(binned, y, text_features=text_features)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    with pytest.raises(ValueError, match="text_features must be None or the same as in the BinnedTable"):
        fitted(binned, y, text_features=["kind"])
    BinnedTable.from_source(X, y, path=tmp_path / "binned", text_features=["review"])
    model = fitted(BinnedTable.open(tmp_path / "binned"), y, text_features=None)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.slow
def test_the_table_encoder_returns_words():
    X = pd.DataFrame({"n": [1, 2], "said": ["tea, tea", None]})
    encoder = TableEncoder(text_features=["said"]).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["n", "said: length", 'said: "tea"']
    np.testing.assert_array_equal(encoder.transform(X).toarray(), [[1, 2, 2], [2, np.nan, 0]])
    many = encoder.transform(pd.concat([X] * 100_000))
    assert many.format == "csr"
    np.testing.assert_array_equal(many[-2:].toarray(), [[1, 2, 2], [2, np.nan, 0]])


def test_errors_name_the_column_and_the_remedy(table):
    X, y = table
    with pytest.raises(ValueError, match="Column 'price' must hold texts; row 0 holds"):
        fitted(X, y, text_features=["price"])
    with pytest.raises(ValueError, match="other columns than categorical_features; got column 'review' in both"):
        fitted(X, y, categorical_features=["review"])
    with pytest.raises(ValueError, match="text_features"):
        fitted(X, y, text_features=["no such column"])
    with pytest.raises(ValueError, match=r"text_features.max_terms must be"):
        fitted(X, y, text_features=Texts(["review"], max_terms=0))
    with pytest.raises(ValueError, match=r"text_features.ngram_range must be a pair"):
        fitted(X, y, text_features=Texts(["review"], ngram_range=(2, 1)))
    with pytest.raises(ValueError, match="monotonic_cst must be 0 for texts and lists"):
        fitted(X, y, monotonic_cst={"review": 1})
    model = fitted(X, y)
    with pytest.raises(ValueError, match=r"columns of texts or lists \(fit on the columns of TableEncoder"):
        model.export(format="onnx")
    with pytest.raises(ValueError, match="Column 'review' must hold texts; row 1 holds 3"):
        model.predict(X[:2].assign(review=["good", 3]))


# Lists --------------------------------------------------


@pytest.fixture
def vectors(rng):
    values = rng.normal(size=(140, 4)).astype(np.float32)
    return values, (values[:, 0] > values[:, 3]).astype(int)


def frames_of(values, missing=False):
    rows = [None if missing and i % 7 == 0 else row for i, row in enumerate(values)]
    lists = [None if row is None else row.tolist() for row in rows]
    yield pd.DataFrame({"v": pd.Series(rows, dtype=object)})
    yield pd.DataFrame({"v": pd.Series(lists, dtype=object)})
    yield pl.DataFrame({"v": pl.Series(lists, dtype=pl.List(pl.Float32))})
    yield pl.DataFrame({"v": pl.Series(lists, dtype=pl.Array(pl.Float32, values.shape[1]))})
    yield pa.table({"v": pa.array(lists, pa.list_(pa.float32()))})
    yield pa.table({"v": pa.array(lists, pa.list_(pa.float32(), values.shape[1]))})
    yield pa.table({"v": pa.array(lists, pa.large_list(pa.float64()))})


@pytest.mark.parametrize("missing", [False, True])
def test_embeddings_are_their_elements(vectors, missing):
    values, y = vectors
    plain = values.astype(float)
    plain[:: 7 if missing else len(plain) + 1] = np.nan if missing else plain[0]
    expected = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(plain, y).predict_proba(plain)
    for frame in frames_of(values, missing):
        model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(frame, y)
        assert model.feature_parts_ == ["v: 0", "v: 1", "v: 2", "v: 3"]
        np.testing.assert_array_equal(model.predict_proba(frame), expected)
        np.testing.assert_array_equal(model.predict_proba(frame[:3]), expected[:3])


def test_lists_must_have_one_length(vectors):
    values, y = vectors
    ragged = pd.DataFrame({"v": [row[: 3 + (i == 5)] for i, row in enumerate(values)]})
    with pytest.raises(
        ValueError, match="Column 'v' must hold lists of the same length, at least 1; got lengths from 3"
    ):
        GradientBoostingRegressor().fit(ragged, y)
    frame = next(frames_of(values))
    model = GradientBoostingRegressor(n_estimators=2).fit(frame, y)
    with pytest.raises(ValueError, match="lists of the same length"):
        model.predict(ragged)
    with pytest.raises(ValueError, match="Column 'v' must hold lists of numbers; row 1 holds"):
        model.predict(pd.DataFrame({"v": [values[0], 2.0]}))
    with pytest.raises(ValueError, match="Column 'v' must hold lists of numbers; row 0 holds"):
        model.predict(pd.DataFrame({"v": [["1", "2", "3", "4"]]}))


def test_elements_are_read_one_by_one():
    first, more = Elements(2).read([[1, 2], None, np.array([3.5, np.nan])], "'v'")
    np.testing.assert_array_equal(first, [1, np.nan, 3.5])
    np.testing.assert_array_equal(more, [[2], [np.nan], [np.nan]])


@pytest.mark.filterwarnings("ignore:X and y hold exact duplicates")
def test_lists_of_strings_and_separated_items_are_indicators(rng):
    tags = [["tea", "Milk"], [], None, ["Milk"], ["tea", "sugar"]] * 20
    texts = [None if own is None else "; ".join(own) for own in tags]
    y = [own is not None and "tea" in own for own in tags]
    for frame in (pd.DataFrame({"t": tags}), pl.DataFrame({"t": tags}), pa.table({"t": tags})):
        model = RandomForestClassifier(n_estimators=5, random_state=0).fit(frame, y)
        assert model.feature_parts_ == ["t: length", 't: "Milk"', 't: "sugar"', 't: "tea"']
        assert model.score(frame, y) == 1
        member = GradientBoostingClassifier(n_estimators=3)
        stack = StackingClassifier([("member", member)])
        for ensemble in (BaggingClassifier(member, 2), ConformalClassifier(member), stack):
            assert ensemble.set_params(random_state=0).fit(frame, y).score(frame, y) == 1
    frame = pd.DataFrame({"t": texts})
    other = RandomForestClassifier(n_estimators=5, random_state=0, text_features=Texts(["t"], ";")).fit(frame, y)
    by_column = RandomForestClassifier(n_estimators=5, random_state=0, text_features={"t": ";"}).fit(frame, y)
    np.testing.assert_array_equal(by_column.predict_proba(frame), other.predict_proba(frame))
    with pytest.raises(ValueError, match=r"text_features.analyzer must be 'word' or 'char' or a sep"):
        RandomForestClassifier(text_features={"t": "x"}).fit(frame, y)
    with pytest.raises(ValueError, match="text_features must have one analyzer for each column"):
        RandomForestClassifier(text_features={"t": ";", 0: "word"}).fit(frame, y)
    assert other.feature_parts_ == model.feature_parts_
    np.testing.assert_array_equal(other.predict_proba(frame), model.predict_proba(pd.DataFrame({"t": tags})))
