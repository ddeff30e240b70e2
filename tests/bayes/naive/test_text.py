"""Texts to classes."""

from __future__ import annotations

import builtins
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline

import fastens
from fastens import ModelFileError, TextClassifier

TEXTS = [
    "Win a prize now, win money",
    "You have won a prize",
    "Money for you, now",
    "See you at lunch",
    "Lunch was great, see you",
    "At home now",
]
LABELS = ["spam", "spam", "spam", "ham", "ham", "ham"]
PEERS = {
    "multinomial": (MultinomialNB, {}),
    "bernoulli": (BernoulliNB, {}),
    "complement": (ComplementNB, {}),
    "pairs of words": (MultinomialNB, {"ngram_range": (1, 2), "min_df": 2}),
    "few terms": (MultinomialNB, {"max_features": 3, "lowercase": False}),
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("features", ["binary", "count"])
def test_same_as_scikit_learn(name, features):
    peer, parameters = PEERS[name]
    model = TextClassifier(model=name if name in ("bernoulli", "complement") else "multinomial", features=features)
    model.set_params(**parameters).fit(TEXTS, LABELS)
    pipeline = make_pipeline(CountVectorizer(binary=features == "binary", **parameters), peer()).fit(TEXTS, LABELS)
    new = [*TEXTS, "a prize of words never seen", ""]
    assert_allclose(model.predict_proba(new), pipeline.predict_proba(new))
    assert_array_equal(model.predict(new), pipeline.predict(new))
    assert model.terms_.tolist() == pipeline[0].get_feature_names_out().tolist()
    assert_array_equal(model.get_feature_names_out(), pipeline[0].get_feature_names_out(), strict=True)


def test_stop_words_and_stems():
    model = TextClassifier(stop_words="english", stemmer="english").fit(TEXTS, LABELS)
    assert model.terms_.tolist() == ["great", "home", "lunch", "money", "prize", "win", "won"]
    assert_array_equal(model.transform(["Lunches, winning"]).toarray().sum(axis=1), [2])
    own = TextClassifier(stop_words=["win", "you"]).fit(TEXTS, LABELS)
    assert "win" not in own.terms_.tolist()
    with pytest.raises(ValueError, match=r"stemmer must be None or one of 'arabic', .* got 'klingon'"):
        TextClassifier(stemmer="klingon").fit(TEXTS, LABELS)


def test_stems_in_many_threads():
    ends = ("ing", "ness", "ly", "ization", "fully")
    words = [a + b + c for a in "bdfgklmnprst" for b in ("ata", "ori", "ulu", "emi", "ofa") for c in ends]
    texts = [" ".join(words[i::5]) for i in range(40)]
    state = pickle.dumps(TextClassifier(stemmer="english").fit(texts, [0, 1] * 20))
    expected, interval = pickle.loads(state).predict_proba(texts), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(3):
                model = pickle.loads(state)  # has not cut a word
                for found in pool.map(lambda _, model=model: model.predict_proba(texts), range(4)):
                    assert_array_equal(found, expected)
    finally:
        sys.setswitchinterval(interval)


def test_without_the_library_for_stems(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "snowballstemmer":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    TextClassifier().fit(TEXTS, LABELS)
    with pytest.raises(ImportError, match=r"pip install 'fastens\[text\]'"):
        TextClassifier(stemmer="english").fit(TEXTS, LABELS)


@pytest.mark.parametrize("name", ["multinomial", "bernoulli", "complement"])
def test_most_informative_terms(name):
    words = TextClassifier(model=name).fit(TEXTS, LABELS).most_informative_terms(3)
    assert {word for word, _ in words["ham"]} == {"at", "lunch", "see"}
    assert [word for word, _ in words["spam"]][:2] == ["money", "prize"]
    assert all(first[1] >= second[1] > 0 for first, second in zip(words["spam"], words["spam"][1:], strict=False))
    if name == "multinomial":  # (2 + 1) / (11 + 13) against (0 + 1) / (11 + 13)
        counts = TextClassifier().fit(TEXTS, LABELS)
        n_spam, n_ham = counts.classifier_.feature_count_.sum(axis=1)[[1, 0]]
        expected = np.log(3 / (n_spam + len(counts.terms_))) - np.log(1 / (n_ham + len(counts.terms_)))
        assert words["spam"][0][1] == pytest.approx(expected)


def test_tables_of_one_column():
    model = TextClassifier().fit(TEXTS, LABELS)
    expected = model.predict_proba(TEXTS)
    arrow = pa.table({"text": TEXTS})
    for X in (
        np.array(TEXTS),
        np.array(TEXTS, object)[:, None],
        pd.Series(TEXTS),
        pl.DataFrame({"text": TEXTS}),
        arrow,
        arrow["text"],
        pa.array(TEXTS),
    ):
        assert_array_equal(TextClassifier().fit(X, LABELS).predict_proba(X), expected)
    frame = pd.DataFrame({"text": [*TEXTS, None]})
    assert_allclose(model.predict_proba(frame)[-1], [0.5, 0.5])


@pytest.mark.parametrize(
    "parameters", [{}, {"min_df": 3}, {"max_df": 2}, {"min_df": 0.3}, {"max_features": 3, "features": "count"}]
)
@pytest.mark.parametrize("in_file", [False, True])
def test_weights_are_repetition(tmp_path, parameters, in_file):
    weight = np.array([2, 1, 0, 1, 3, 1])
    rows = np.repeat(np.arange(6), weight)
    pd.DataFrame({"text": TEXTS}).to_parquet(tmp_path / "texts.parquet")
    X = str(tmp_path / "texts.parquet") if in_file else TEXTS
    model = TextClassifier(**parameters).fit(X, LABELS, weight)
    twice = TextClassifier(**parameters).fit([TEXTS[row] for row in rows], np.array(LABELS)[rows])
    assert model.terms_.tolist() == twice.terms_.tolist()
    assert_allclose(model.predict_proba(TEXTS), twice.predict_proba(TEXTS))


LIMITS = [{"min_df": 2}, {"min_df": 0.4}, {"max_df": 2}, {"max_df": 0.5}, {"max_features": 3}]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_weights_are_repetition_for_the_vocabulary(limits, tmp_path):
    weight = np.array([2, 1, 0, 1, 3, 1])
    rows = np.repeat(np.arange(6), weight)
    frame = pd.DataFrame({"text": TEXTS})
    frame.to_csv(tmp_path / "texts.csv", index=False)
    twice = TextClassifier(**limits).fit([TEXTS[row] for row in rows], np.array(LABELS)[rows])
    for X in (TEXTS, tmp_path / "texts.csv"):
        model = TextClassifier(**limits).fit(X, LABELS, weight)
        assert model.terms_.tolist() == twice.terms_.tolist()
        assert_allclose(model.predict_proba(TEXTS), twice.predict_proba(TEXTS))
        shared = TextClassifier(**limits).fit(X, LABELS, np.where(weight > 0, 0.3, 0))
        assert shared.terms_.tolist() == TextClassifier(**limits).fit(X, LABELS, weight > 0).terms_.tolist()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("X must be a list of texts; got a single text", "X must be a list of texts; got a single text"),
        ({"text": TEXTS, **dict.fromkeys("abcde")}, "X must be a list of texts, or a table of one column; got a dict"),
        (set(TEXTS), "got a set"),
        ([1.0] * 6, "X must hold texts; row 0 holds 1.0"),
        (pd.DataFrame({"a": TEXTS, "b": TEXTS}), "one column of texts; got the 2 columns"),
        (TEXTS[:5], "same number of rows; got 5 and 6"),
        ([], "0 sample"),
    ],
)
def test_input_without_texts_raises(X, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier().fit(X, LABELS)


@pytest.mark.parametrize("parameters", [{}, {"model": "bernoulli", "stemmer": "english", "ngram_range": (1, 2)}])
@pytest.mark.parametrize("how", ["file", "pickle"])
def test_a_model_comes_back_as_it_was(tmp_path, parameters, how):
    model = TextClassifier(**parameters).fit(TEXTS, LABELS)
    if how == "file":
        model.save(tmp_path / "model")
        same = fastens.load(tmp_path / "model")
    else:
        same = pickle.loads(pickle.dumps(model))
    new = [*TEXTS, "winning lunches"]
    assert_array_equal(same.predict_log_proba(new), model.predict_log_proba(new))
    assert same.most_informative_terms(2) == model.most_informative_terms(2)
    assert same.get_params().keys() == model.get_params().keys()


def test_a_file_that_does_not_fit_is_refused(tmp_path):
    model = TextClassifier().fit(TEXTS, LABELS)
    model.terms_ = model.terms_[:-1]
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="the vocabulary does not match the counts"):
        fastens.load(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text_sms_spam", "text_rt_polarity"])
def test_at_least_as_accurate_as_scikit_learn(load_table, name):
    table = load_table(name)
    X, y = table["text"].to_numpy(), table["label"].astype(str).to_numpy()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = cross_val_score(TextClassifier(), X, y, cv=folds).mean()
    theirs = cross_val_score(make_pipeline(CountVectorizer(), MultinomialNB()), X, y, cv=folds).mean()
    assert ours >= theirs - 0.001


def naive_document_frequencies(model, words_of, new):
    """P(class | text) from the definition: one text, class and word after another."""
    labels, words = np.array(LABELS), [set(words_of(text)) for text in TEXTS]
    vocabulary = sorted(set().union(*words))
    out = []
    for text in new:
        held, joint = set(words_of(text)), []
        for label in model.classes_:
            own = [found for found, of in zip(words, labels, strict=True) if of == label]
            product = len(own) / len(words)
            for word in vocabulary:
                share = (sum(word in found for found in own) + 1) / (len(own) + 2)
                product *= share if word in held else 1 - share
            joint.append(product)
        out.append(np.array(joint) / sum(joint))
    return vocabulary, np.array(out)


def test_document_frequencies(tmp_path):
    model = TextClassifier(model="document-frequencies").fit(TEXTS, LABELS)
    words_of = TextClassifier(stop_words="english", stemmer="english")._make_vectorizer().build_analyzer()
    new = [*TEXTS, "lunches and winning", "nothing known"]
    vocabulary, expected = naive_document_frequencies(model, words_of, new)
    assert model.terms_.tolist() == vocabulary
    assert_allclose(model.predict_proba(new), expected, rtol=1e-12)
    long_form = TextClassifier(model="bernoulli", stop_words="english", stemmer="english").fit(TEXTS, LABELS)
    assert_array_equal(model.predict_proba(new), long_form.predict_proba(new))
    assert model.most_informative_terms(3) == long_form.most_informative_terms(3)
    model.save(tmp_path / "model")
    assert_array_equal(fastens.load(tmp_path / "model").predict_proba(new), model.predict_proba(new))


def test_document_frequencies_with_other_words():
    options = {"stop_words": ["win"], "stemmer": "german"}
    found = TextClassifier(model="document-frequencies", **options).fit(TEXTS, LABELS)
    assert_array_equal(found.terms_, TextClassifier(model="bernoulli", **options).fit(TEXTS, LABELS).terms_)
    with_all = TextClassifier(model="document-frequencies", stop_words=[]).fit(TEXTS, LABELS)
    assert "you" in with_all.terms_.tolist()


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", "b"], {}, "X must hold texts with words of at least two letters"),
        (["you", "and"], {"stop_words": "english"}, "X must hold texts with words"),
        (["one", "two"], {"min_df": 2}, "X must hold texts with words .* min_df"),
        (["one", "two"], {"stop_words": ["the", 3]}, r"stop_words must be .* or a list of words; got \['the', 3\]"),
        (["one", "two"], {"stop_words": "the"}, "stop_words must be .*; got 'the'"),
        (["one", "two"], {"model": "documents"}, "model must be one of .*'document-frequencies'; got 'documents'"),
    ],
)
def test_texts_without_words(texts, options, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(**options).fit(texts, ["a", "b"])


def test_input_that_is_not_texts_raises():
    for wrong in (3, None, "text", [b"bytes"], [3]):
        with pytest.raises(ValueError, match="X must "):
            TextClassifier().fit(wrong, LABELS)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        TextClassifier().fit(TEXTS, None)
    assert_array_equal(TextClassifier(min_df=0).fit(TEXTS, LABELS).terms_, TextClassifier().fit(TEXTS, LABELS).terms_)


def test_stemmers_do_not_remember_all_words_that_ever_were(monkeypatch):
    pytest.importorskip("snowballstemmer")
    monkeypatch.setattr("fastens.bayes.naive.text.MAX_STEMS", 3)
    model = TextClassifier(stemmer="english").fit(["good films", "bad films", "good plays", "bad plays"], [1, 0] * 2)
    wanted = model.predict_proba(["good playing"])
    for word in range(10):
        model.predict([f"another{word} words"])
    tokenizer = model._vectorizer.tokenizer
    assert len(tokenizer._stems) < 8
    assert_array_equal(model.predict_proba(["good playing"]), wanted)


def test_an_array_without_rows_and_columns_holds_no_texts():
    with pytest.raises(ValueError, match="X must be a list of texts; got array"):
        TextClassifier().fit(TEXTS, LABELS).predict(np.array("a text"))


def test_a_list_of_labels_that_are_not_all_strings():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        TextClassifier().fit(TEXTS, [*LABELS[:5], None])
    with pytest.raises(ValueError, match="y holds int, str; labels must be all strings or all numbers"):
        TextClassifier().fit(TEXTS, [*LABELS[:5], 1])


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_columns_unknown_to_fit_are_ignored(kind, tmp_path):
    frame = pd.DataFrame({"text": TEXTS})
    model = TextClassifier().fit(kind(frame), LABELS)
    model.save(tmp_path / "texts.fastens")
    more = kind(frame.assign(length=1.0)[["length", "text"]])
    for each in (model, pickle.loads(pickle.dumps(model)), fastens.load(tmp_path / "texts.fastens")):
        assert_array_equal(each.predict_proba(more), model.predict_proba(TEXTS))
    with pytest.raises(ValueError, match="one column of texts; got the 2 columns"):
        TextClassifier().fit(TEXTS, LABELS).predict(more)
