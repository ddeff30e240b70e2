"""From texts to classes: words, their counts, naive Bayes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from fastens.base import BaseClassifier
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.counts.memory import texts_needs
from fastens.bayes.naive.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from fastens.bayes.naive.parameters import DOCS
from fastens.bayes.naive.texts import (
    CountedTexts,
    LabelledTexts,
    learn_terms,
    name_of_texts,
    needing_words,
    sum_terms,
    take_texts,
    texts_of,
)
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs
from fastens.engine.elementary import log
from fastens.engine.parts import RowSource, parts_of
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, instance, one_of, real, whole
from fastens.saving import SavedEstimator
from fastens.table.memory_limits import FitNeeds, MemoryNeeds, TableShape
from fastens.table.sample_weights import check_weights
from fastens.table.sources import is_file_name

Array = NDArray[np.float64]
WORD = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's: two letters or digits at least
MOST_STEMS = 100_000  # that are remembered
DOCUMENTS = "document-frequencies"
MODELS: dict[str, Any] = {
    "multinomial": MultinomialNB,
    "bernoulli": BernoulliNB,
    "complement": ComplementNB,
    DOCUMENTS: BernoulliNB,
}


def _stemmer(language: str) -> Any:
    try:
        import snowballstemmer
    except ImportError as error:
        raise ImportError("stemming needs snowballstemmer: pip install 'fastens[text]'") from error
    if language not in snowballstemmer.algorithms():
        known = ", ".join(map(repr, sorted(snowballstemmer.algorithms())))
        raise ValueError(f"stemmer must be None or one of {known}; got {language!r}.")
    return snowballstemmer.stemmer(language)


class _Stemmers(threading.local):
    """A stemmer for each thread: it holds the word that it is cutting."""

    def __init__(self, language: str) -> None:
        self.stem = _stemmer(language).stemWord


class Tokenizer:
    """The words of a text that are no stop words, cut to their stems where a language is given."""

    def __init__(self, stop_words: frozenset[str], language: str | None) -> None:
        self.stop_words = stop_words
        self.language = language
        self._prepare()

    def _prepare(self) -> None:
        self._stemmers = None if self.language is None else _Stemmers(self.language)
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """The words of a text."""
        words = [word for word in WORD.findall(text) if word not in self.stop_words]
        if self._stemmers is None:
            return words
        if len(self._known) > MOST_STEMS:
            self._known = {}
        known, stem = self._known, self._stemmers.stem
        for word in words:
            if word not in known:
                known[word] = stem(word)
        return [known[word] for word in words]

    def __getstate__(self) -> dict[str, Any]:
        return {"stop_words": self.stop_words, "language": self.language}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(whole(1).holds(end) for end in value)
        and value[0] <= value[1]
    )


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


@with_parameters
class TextClassifier(BaseClassifier, SavedEstimator):
    """Classify texts by their words: vocabulary, stop words, stems, counts, naive Bayes.

    Parameters
    ----------
    {parameters}
    model : "multinomial", "bernoulli", "complement" or "document-frequencies", default="multinomial"
        The naive Bayes: MultinomialNB, BernoulliNB (whose features are always binary) or
        ComplementNB. "document-frequencies" is BernoulliNB with the preparation of its textbook form: English stop
        words are left out and words are cut to their English stems, unless `stop_words` or `stemmer` are other
        than None. P(word | class) is the share of the class's texts that hold the word, smoothed; the probability of a
        text is the product over all words of the vocabulary, those included that it does not hold.
    features : "binary" or "count", default="binary"
        Whether a word is in the text, or how often it is.
    lowercase : bool, default=True
        Whether capital letters are taken for small ones.
    stop_words : "english", list of str, or None, default=None
        Words that are left out; an empty list for none, whatever the model.
    stemmer : str or None, default=None
        Language by whose rules words are cut to their stems, such as "english"; needs the library snowballstemmer, the
        extra ``fastens[text]``.
    ngram_range : pair of int, default=(1, 1)
        Fewest and most words in a row that make up a term of the vocabulary.
    min_df, max_df : int or float, default=1 and 1.0
        Number, or share, of texts that a term must be in at least, and at most.
    max_features : int or None, default=None
        Keep so many of the most frequent terms.
    smoothing : "laplace", "m", "kt", "bdeu" or "none", default="laplace"
        Pseudo-counts, as in MultinomialNB; model="complement" has "laplace" alone.
    alpha : float, default=1.0
        Pseudo-count with smoothing="laplace".

    Attributes
    ----------
    {attributes}
    terms_ : array of str, shape (n_terms,)
        The vocabulary, sorted.
    classifier_ : fitted naive Bayes
        Its columns are the terms.

    Raises
    ------
    ValueError
        If a parameter or the data break a rule; the message names it.
    ImportError
        If `stemmer` is given and snowballstemmer is not installed.

    References
    ----------
    McCallum & Nigam (1998), "A comparison of event models for naive Bayes text classification"; Mitchell (1997),
    "Machine learning", section 6.10.

    Examples
    --------
    >>> from fastens import TextClassifier
    >>> texts = ["win a prize now", "you win money", "see you at lunch", "lunch at noon"]
    >>> model = TextClassifier().fit(texts, ["spam", "spam", "ham", "ham"])
    >>> model.predict(["a prize for you", "lunch now"]).tolist()
    ['spam', 'ham']
    >>> [word for word, _ in model.most_informative_terms(2)["ham"]]
    ['at', 'lunch']
    """

    _parameter_rules: ClassVar = {
        "model": one_of(*MODELS),
        "features": one_of("binary", "count"),
        "lowercase": FLAG,
        "stop_words": one_of("english") | NONE | Rule("a list of words", _are_words),
        "stemmer": NONE | instance(str, "the name of a language"),
        "ngram_range": Rule("a pair of whole numbers from 1, the smaller first", _is_range),
        "min_df": whole(1) | real(0, 1),
        "max_df": whole(1) | real(0, 1),
        "max_features": whole(1) | NONE,
        "smoothing": SMOOTHING_RULES["smoothing"],
        "alpha": real(0),
        "fit_prior": FLAG,
        "n_jobs": ANYTHING,
    }
    _docs: ClassVar[Docs] = DOCS
    _reads_parts = False
    _takes_parts = True

    model: str = "multinomial"
    features: str = "binary"
    lowercase: bool = True
    stop_words: Any = None
    stemmer: str | None = None
    ngram_range: Any = (1, 1)
    min_df: float = 1
    max_df: float = 1.0
    max_features: int | None = None
    smoothing: str = "laplace"
    alpha: float = 1.0
    fit_prior: bool = True
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.input_tags.sparse = False
        return tags

    # Fit --------------------------------------------------

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> TextClassifier:
        """Fit to texts and their labels.

        Parameters
        ----------
        X : list or array of str, shape (n_samples,), or a table of one column, also in files or a stream
            The texts; a missing one is empty.
        y : array of shape (n_samples,), or the name of a column
            The labels.
        sample_weight : array of shape (n_samples,), optional
            Weight 2 is the text twice, also for `min_df`, `max_df` and `max_features`, where all weights are whole.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.model == "complement" and self.smoothing != "laplace":
            raise ValueError(f"smoothing must be 'laplace' with model='complement'; got {self.smoothing!r}.")
        texts = texts_of(X, fewest=self._comm.size == 1)
        labels = self._read_target(y)
        if len(labels) != len(texts):
            raise ValueError(f"X and y must have the same number of rows; got {len(texts)} and {len(labels)}.")
        weight = check_weights(sample_weight, len(texts), self._comm)
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            texts, labels, weight = take_texts(texts, rows), labels[rows], weight[rows]
        target = self._learn_target(labels)
        self._column = name_of_texts(X)
        classifier = self._make_classifier()
        if isinstance(texts, RowSource) and self._comm.size == 1:
            labelled = LabelledTexts(target.astype(np.int32), weight, len(self.classes_))
            on_terms, is_there = self._limit_of_terms(texts), isinstance(classifier, BernoulliNB)
            found = sum_terms(texts, self._make_vectorizer(), labelled, is_there=is_there, on_terms=on_terms)
            self._take_terms(found.terms)
            self.classifier_ = classifier._fit_sums(found.sums, found.class_counts, self.classes_)
            return self
        counts = self._learn_terms(texts, weight)
        with classifier._over(self._comm):
            self.classifier_ = classifier.fit(counts, labels, weight)
        return self

    def _limit_of_terms(self, texts: RowSource) -> Callable[[int], Any]:
        """A function that raises ValueError where so many terms take more memory than `fit` may."""
        if texts.limits is None:
            return lambda _: None
        needs, limits = FitNeeds.of(self, weighted=False), texts.limits
        _, part = next(parts_of(texts))
        shape = needs.shape(texts)._replace(value_bytes=1 + sum(map(len, texts_of(part))) // part.shape[0])

        def check(n_terms: int) -> None:
            limits.place(self._memory_needs(shape._replace(n_values=n_terms)), type(self).__name__)

        check(1)
        return check

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return texts_needs(self, shape)

    def _learn_terms(self, texts: Any, weight: Array | None) -> Any:
        """Take the vocabulary of texts; return their counts."""
        vectorizer = self._make_vectorizer()
        if self._comm.size > 1 or (weight is not None and self._leaves_terms_out()):
            self._take_terms(learn_terms(texts, weight, vectorizer, self._comm))
            is_source = isinstance(texts, RowSource)
            return CountedTexts(texts, self._vectorizer) if is_source else self._counts_of(texts)
        with needing_words():
            counts = vectorizer.fit_transform(texts).astype(np.float64)
        self._take_terms(vectorizer.get_feature_names_out())
        return counts

    def _leaves_terms_out(self) -> bool:
        """Whether it matters how often terms come."""
        takes_all = isinstance(self.max_df, float) and self.max_df == 1 and self.min_df in (0, 1)
        return self.max_features is not None or not takes_all

    def _is_source(self, X: Any) -> bool:
        # A string that names no file is a text by mistake.
        return super()._is_source(X) and (not isinstance(X, str) or is_file_name(X))

    def _make_vectorizer(self, terms: Any = None) -> CountVectorizer:
        by_model = "english" if self.model == DOCUMENTS else None
        chosen = by_model if self.stop_words is None else self.stop_words
        stop_words = ENGLISH_STOP_WORDS if isinstance(chosen, str) else frozenset(chosen or ())
        return CountVectorizer(
            tokenizer=Tokenizer(stop_words, by_model if self.stemmer is None else self.stemmer),
            token_pattern=None,
            lowercase=self.lowercase,
            ngram_range=tuple(self.ngram_range),
            min_df=self.min_df or 0.0,  # a whole 0 is a share of 0
            max_df=self.max_df or 0.0,
            max_features=self.max_features,
            binary=self.features == "binary",
            vocabulary=None if terms is None else {term: place for place, term in enumerate(terms)},
        )

    def _make_classifier(self) -> Any:
        common: dict[str, Any] = {"alpha": self.alpha, "fit_prior": self.fit_prior, "n_jobs": self.n_jobs}
        if self.model != "complement":
            common["smoothing"] = self.smoothing
        return MODELS[self.model](**common)

    def _take_terms(self, terms: Any) -> None:
        self.terms_ = np.asarray(terms, dtype=np.str_)
        self._vectorizer = self._make_vectorizer(self.terms_.tolist())

    # Predict --------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the counts, or presence, of the vocabulary's terms in texts, a CSR matrix of floats."""
        self._check_fitted()
        return self._counts_of(texts_of(X, name=self._column))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`, which are the terms; `input_features` is not used."""
        self._check_fitted()
        return self.terms_.astype(object)

    def _counts_of(self, texts: Any) -> Any:
        return self._vectorizer.transform(texts).astype(np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each text, shape (n_samples,)."""
        counts = self.transform(X)
        return self.classifier_.predict(counts)

    def predict_log_proba(self, X: Any) -> Array:
        """Return log P(class | text), shape (n_samples, n_classes)."""
        counts = self.transform(X)
        return self.classifier_.predict_log_proba(counts)

    def predict_proba(self, X: Any) -> Array:
        """Return P(class | text), shape (n_samples, n_classes)."""
        counts = self.transform(X)
        return self.classifier_.predict_proba(counts)

    def most_informative_terms(self, n: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """Return the most characteristic terms of each class.

        Parameters
        ----------
        n : int, default=10
            Most terms of a class.

        Returns
        -------
        dict of lists of (term, score), by label
            The score is log P(term | class) - log P(term | the other classes), both smoothed; best first.
        """
        self._check_fitted()
        whole(1).check("n", n)
        likelihood = self.classifier_._likelihoods[0]
        groups, counts = likelihood.groups(), likelihood.counts
        with np.errstate(divide="ignore", invalid="ignore"):
            own = log(groups.estimate(counts, "bayes"))
            scores = own - log(groups.estimate(counts.sum(axis=0) - counts, "bayes"))
        if issubclass(MODELS[self.model], BernoulliNB):
            scores = scores[:, 1::2]
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        return {
            label: [(str(self.terms_[place]), float(scores[row, place])) for place in best[row]]
            for row, label in enumerate(self.classes_.tolist())
        }

    # Saving --------------------------------------------------

    def _encoder_state(self) -> dict[str, Any]:
        return {"terms": self.terms_.tolist(), "column": self._column, "classifier": self.classifier_._to_state()[1]}

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        terms = state["terms"]
        if not all(isinstance(term, str) for term in terms) or len(set(terms)) != len(terms):
            raise ValueError("the vocabulary is malformed")
        self._classifier_state = state["classifier"]
        self._column = state.get("column")
        self._take_terms(terms)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return {f"classifier.{name}": array for name, array in self.classifier_._to_state()[0].items()}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        own = {name.removeprefix("classifier."): array for name, array in arrays.items()}
        self.classifier_ = MODELS[self.model]._from_state(own, self.__dict__.pop("_classifier_state"))
        if self.classifier_.n_features_in_ != len(self.terms_):
            raise ValueError("the vocabulary does not fit the counts")
        self.classes_ = self.classifier_.classes_
