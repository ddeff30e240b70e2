"""Text classification: tokens, their counts and naive Bayes."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from fastens.base import BaseClassifier, Capabilities
from fastens.bayes.counts.dirichlet import SMOOTHING_RULES
from fastens.bayes.naive.base_naive_bayes import BaseNaiveBayes
from fastens.bayes.naive.likelihoods import Batch, sums_by_class
from fastens.bayes.naive.moments import add_sparse_sums
from fastens.bayes.naive.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.elementary import log
from fastens.engine.limits import MAX_INT32
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.whole import are_copies
from fastens.modelfile.saving import Saved, SavedEstimator, SavedParts
from fastens.params.docstrings import Docs
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, Rule, instance, one_of, parameter, real, whole
from fastens.table.columns.factorize import is_missing
from fastens.table.parts import take_rows
from fastens.table.source import TableParts
from fastens.table.sources import Batches, is_file_name
from fastens.table.tables import table_over
from fastens.table.training_data import check_weights

# Texts whose words are counted at a time.
TEXTS_AT_ONCE = 1 << 12


class CountedTerms(NamedTuple):
    """Distinct terms of texts, with document frequencies and occurrence counts of shape (2, n_terms)."""

    terms: list[str]
    counts: Array
    n_texts: float


class _TermCounter:
    """Terms in order of first occurrence, with their counts."""

    def __init__(self, vectorizer: CountVectorizer, *, presence_only: bool) -> None:
        self._analyze, self._binary, self._is_there = vectorizer.build_analyzer(), vectorizer.binary, presence_only
        self.positions: dict[str, int] = {}
        self.counts = np.zeros((2, 0))  # document frequencies and occurrence counts
        self._n_texts = 0.0

    def count_texts(self, texts: Sequence[str], copies: Array | None) -> sparse.csr_matrix:
        """Add the terms of texts to the counts; return the counts of each text, a CSR matrix (n_texts, n_terms so far).

        The matrix has ones if only the presence of terms counts. `copies` holds how often each text counts; None means
        once.
        """
        counters = [Counter(self._analyze(text)) for text in texts]
        columns = np.array(
            [self.positions.setdefault(term, len(self.positions)) for counter in counters for term in counter], np.int64
        )
        n_times = np.array([n for counter in counters for n in counter.values()], dtype=np.float64)
        n_times = np.ones_like(n_times) if self._binary else n_times
        times = np.ones(len(counters)) if copies is None else copies
        of_terms = np.repeat(times, list(map(len, counters)))
        of_batch = np.stack([np.bincount(columns, w, len(self.positions)) for w in (of_terms, of_terms * n_times)])
        self.counts = pad_columns(self.counts, len(self.positions)) + of_batch
        self._n_texts += float(times.sum())
        ends = np.cumsum([0, *map(len, counters)])
        dtype = index_type(max(int(ends[-1]), len(self.positions)))
        data = np.ones_like(n_times) if self._is_there else n_times
        return sparse.csr_matrix(
            (data, columns.astype(dtype), ends.astype(dtype)), (len(counters), len(self.positions))
        )

    def term_counts(self) -> CountedTerms:
        """Return all terms with their counts, and the number of texts, so far."""
        return CountedTerms(list(self.positions), self.counts, self._n_texts)


def index_type(largest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest NumPy integer type that SciPy supports for positions up to `largest`."""
    return np.int32 if largest <= MAX_INT32 else np.int64


def pad_columns(sums: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """Return the matrix, padded with columns of zeros up to `n_columns` columns."""
    return np.pad(sums, ((0, 0), (0, n_columns - sums.shape[1])))


def sum_terms(rows: Batch, vectorizer: CountVectorizer, *, presence_only: bool) -> tuple[list[str], Array]:
    """Return the vocabulary that the vectorizer would learn from all texts, and the sums of its terms by class.

    If `presence_only` is True, each term counts at most once per text in the sums, but the selection of the most
    frequent terms still uses the vectorizer's counts. Integer weights count as copies for the vectorizer as well. The
    texts are read once.
    """
    have_copies = are_copies(rows.weight)
    collector = _TermCounter(vectorizer, presence_only=presence_only)
    sums = np.zeros((rows.n_classes, 0))
    for block in rows.blocks():
        texts = texts_of(block.X)
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            some = slice(first, first + TEXTS_AT_ONCE)
            batch = block.select_rows(some, texts[some])
            counted = collector.count_texts(batch.X, batch.weight if have_copies else None)
            sums = pad_columns(sums, counted.shape[1])
            if counted.nnz:
                add_sparse_sums(counted.data, counted.indices, counted.indptr, batch.y, batch.weight, sums)
    terms = _select_vocabulary([collector.term_counts()], vectorizer)
    return terms, sums[:, [collector.positions[term] for term in terms]]


class CountedTexts(RowSource):
    """Row source of term counts, with one CSR matrix for each batch of texts."""

    has_sparse_parts = True

    def __init__(self, source: Any, vectorizer: CountVectorizer) -> None:
        self._source, self._vectorizer = source, vectorizer
        self.shape = source.shape[0], len(vectorizer.vocabulary)

    def parts(self) -> Iterator[Any]:
        """Yield the term counts of each batch of texts, a CSR matrix of float64."""
        for _, part in parts_of(self._source):
            yield self._vectorizer.transform(texts_of(part, min_texts=0)).astype(np.float64)


def learn_terms(texts: Any, weight: Array | None, vectorizer: CountVectorizer, comm: Comm) -> list[str]:
    """Return the vocabulary that the vectorizer would learn from the texts of all processes, in lists or batches.

    Integer weights count as copies.
    """
    collector = _TermCounter(vectorizer, presence_only=False)
    copies = weight if all(comm.allgather(are_copies(weight))) else None
    for start, part in parts_of(texts) if isinstance(texts, RowSource) else [(0, texts)]:
        batch = texts_of(part, min_texts=0)
        collector.count_texts(batch, None if copies is None else copies[start : start + len(batch)])
    return _select_vocabulary(comm.allgather(collector.term_counts()), vectorizer)


def _select_vocabulary(counts_by_rank: list[CountedTerms], vectorizer: CountVectorizer) -> list[str]:
    """Return the sorted terms that the vectorizer's limits select from the counts of all processes.

    Raises ValueError if no terms remain.
    """
    with explain_empty_vocabulary():
        terms = sorted({term for counted in counts_by_rank for term in counted.terms})
        if not terms:
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        counts = np.zeros((2, len(terms)))
        position_of = {term: position for position, term in enumerate(terms)}
        for counted in counts_by_rank:
            counts[:, [position_of[term] for term in counted.terms]] += counted.counts
        kept = _select_terms(counts, sum(counted.n_texts for counted in counts_by_rank), vectorizer)
        return [terms[k] for k in np.flatnonzero(kept)]


def _select_terms(counts: Array, n_texts: float, vectorizer: CountVectorizer) -> NDArray[np.bool_]:
    """Return a mask of the terms that pass `min_df`, `max_df` and `max_features` of the vectorizer, shape (n_terms,).

    `counts` holds document frequencies and occurrence counts, (2, n_terms). Raises ValueError if no term passes.
    """
    ends = vectorizer.min_df, vectorizer.max_df
    min_texts, max_texts = (end if isinstance(end, Integral) else end * n_texts for end in ends)
    if max_texts < min_texts:
        raise ValueError("max_df corresponds to < documents than min_df")
    kept = (counts[0] >= min_texts) & (counts[0] <= max_texts)
    limit = vectorizer.max_features
    if limit is not None and kept.sum() > limit:
        best = np.flatnonzero(kept)[(-counts[1][kept].astype(np.int64)).argsort()[:limit]]  # CountVectorizer's order
        kept = np.zeros_like(kept)
        kept[best] = True
    if not kept.any():
        raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
    return kept


@contextmanager
def explain_empty_vocabulary() -> Iterator[None]:
    """Context manager that adds to each ValueError in its block what the texts must contain."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            "X must hold texts with words of at least two letters or digits that stop_words, min_df and "
            f"max_df do not remove: {error}"
        ) from error


def text_column_name(X: Any) -> str | None:
    """Return the name of the first column of a table of texts, or None if it has no name."""
    names = list(X.columns or ()) if isinstance(X, Batches | TableParts) else table_over(X).names or []
    return names[0] if names and isinstance(names[0], str) else None


def texts_of(X: Any, min_texts: int = 1, name: str | None = None) -> Any:
    """Return the texts of a list, vector or one-column table; missing texts become empty strings.

    Tables that are read in batches are checked and returned unchanged. If `name` is the name of a column, the table may
    have other columns as well. Raises ValueError for other inputs, or fewer than `min_texts` texts.
    """
    if isinstance(X, str):
        raise ValueError(f"X must be a list of texts; got a single text, {X[:40]!r}.")
    if isinstance(X, Mapping | set | frozenset):  # keys are not rows, and sets are unordered
        raise ValueError(f"X must be a list of texts, or a table of one column; got a {type(X).__name__}.")
    if isinstance(X, Batches | TableParts):
        _check_single_column(X.columns or list(range(X.shape[1])))
        return X
    table = table_over(X)
    if table.names is not None:
        if name is None or name not in table.names:
            _check_single_column(table.names)
            name = table.names[0]
        X = nw.from_native(table.native, eager_only=True)[:, table.names.index(name)].to_list()
    elif hasattr(X, "shape") and len(X.shape) == 2:
        if X.shape[1] != 1:
            raise ValueError(f"X must have one column of texts; got {X.shape[1]} columns.")
        X = np.asarray(X)[:, 0]
    elif hasattr(X, "to_pylist"):  # an Arrow column
        X = X.to_pylist()
    elif not np.iterable(X):
        raise ValueError(f"X must be a list of texts; got {X!r}.")
    texts = ["" if is_missing(text) else text for text in X]
    _check_texts(texts, min_texts)
    return texts


def _check_texts(texts: list[Any], min_texts: int) -> None:
    """Raise ValueError unless all items are strings and there are at least `min_texts` of them."""
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X must hold texts; row {row} holds {text!r}.")
    if len(texts) < min_texts:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _check_single_column(names: list[str]) -> None:
    """Raise ValueError unless there is exactly one column name."""
    if len(names) != 1:
        raise ValueError(f"X must have one column of texts; got the {len(names)} columns {names}.")


Array = NDArray[np.float64]
WORD = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's token pattern
MAX_STEMS = 100_000  # size of the cache
DOCUMENTS = "document-frequencies"
MODELS: dict[str, Any] = {
    "multinomial": MultinomialNB,
    "bernoulli": BernoulliNB,
    "complement": ComplementNB,
    DOCUMENTS: BernoulliNB,
}


def _make_stemmer(language: str) -> Any:
    """Return the Snowball stemmer of a language; raise ImportError or ValueError if it is not available."""
    try:
        import snowballstemmer
    except ImportError as error:
        raise ImportError("stemming needs snowballstemmer: pip install 'fastens[text]'") from error
    if language not in snowballstemmer.algorithms():
        languages = ", ".join(map(repr, sorted(snowballstemmer.algorithms())))
        raise ValueError(f"stemmer must be None or one of {languages}; got {language!r}.")
    return snowballstemmer.stemmer(language)


class _Stemmers(threading.local):
    """Thread-local stemmers, because a stemmer keeps the current word as state."""

    def __init__(self, language: str) -> None:
        self.stem = _make_stemmer(language).stemWord


class Tokenizer:
    """Tokenizer that drops stop words and, if a language is set, reduces words to their stems."""

    def __init__(self, stop_words: frozenset[str], language: str | None) -> None:
        self.stop_words = stop_words
        self.language = language
        self._prepare()

    def _prepare(self) -> None:
        """Create the stemmer and an empty cache of stems, which are not saved."""
        self._stemmers = None if self.language is None else _Stemmers(self.language)
        self._stems: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text."""
        words = [word for word in WORD.findall(text) if word not in self.stop_words]
        if self._stemmers is None:
            return words
        if len(self._stems) > MAX_STEMS:
            self._stems = {}
        stems, stem = self._stems, self._stemmers.stem
        for word in words:
            if word not in stems:
                stems[word] = stem(word)
        return [stems[word] for word in words]

    def __getstate__(self) -> dict[str, Any]:
        return {"stop_words": self.stop_words, "language": self.language}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()


def _is_ngram_range(value: Any) -> bool:
    """Return True if the value is an ascending pair of integers of at least 1."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(whole(1).holds(end) for end in value)
        and value[0] <= value[1]
    )


def _is_word_collection(value: Any) -> bool:
    """Return True if the value is a list, tuple or set of strings."""
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


@with_parameters
class TextClassifier(BaseClassifier, SavedEstimator):
    """Text classifier: tokenization, stop words, stemming, term counts and naive Bayes.

    Parameters
    ----------
    {parameters}
    model : "multinomial", "bernoulli", "complement" or "document-frequencies", default="multinomial"
        Naive Bayes model: MultinomialNB, BernoulliNB (which always uses binary features) or ComplementNB.
        "document-frequencies" is BernoulliNB with textbook preprocessing: English stop words are removed and words are
        reduced to their English stems, unless `stop_words` or `stemmer` is set. In this model, P(word | class) is the
        smoothed fraction of the texts of the class that contain the word. The likelihood of a text is a product over
        the whole vocabulary, including the words that the text does not contain.
    features : "binary" or "count", default="binary"
        Term features: "binary" for presence or absence, "count" for the number of occurrences.
    lowercase : bool, default=True
        If True, texts are converted to lower case before tokenization.
    stop_words : "english", list of str, or None, default=None
        Words to remove. If None, the default of `model` is used: English stop words for "document-frequencies", none
        for the other models. Pass an empty list to keep all words.
    stemmer : str or None, default=None
        Language of the stemmer, such as "english". It requires snowballstemmer, which the extra ``fastens[text]``
        installs. If None, the default of `model` is used: English for "document-frequencies", no stemming for the other
        models.
    ngram_range : pair of int, default=(1, 1)
        Minimum and maximum number of consecutive words in a term of the vocabulary.
    min_df, max_df : int or float, default=1 and 1.0
        Minimum and maximum document frequency of a term, as a number (int) or a fraction (float) of the texts.
    max_features : int or None, default=None
        Maximum size of the vocabulary: only the most frequent terms are kept. If None, it is unlimited.
    smoothing : "laplace", "m", "kt", "bdeu" or "none", default="laplace"
        Pseudo-counts, as in MultinomialNB. model="complement" only supports "laplace".
    alpha : float, default=1.0
        Pseudo-count for smoothing="laplace". Larger values smooth more.

    Attributes
    ----------
    {attributes}
    terms_ : array of str, shape (n_terms,)
        Sorted vocabulary.
    classifier_ : fitted naive Bayes
        Fitted model, whose columns are the terms.

    Raises
    ------
    ValueError
        If a parameter or the data is invalid; the message names it.
    ImportError
        If a stemmer is needed and snowballstemmer is not installed.

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

    _docs: ClassVar[Docs] = BaseNaiveBayes._docs
    _capabilities = Capabilities(supports_distributed_fit=True, predicts_row_sources=False)

    model: str = parameter(one_of(*MODELS), default="multinomial")
    features: str = parameter(one_of("binary", "count"), default="binary")
    lowercase: bool = parameter(FLAG, default=True)
    stop_words: str | Sequence[str] | None = parameter(
        one_of("english") | NONE | Rule("a list of words", _is_word_collection), default=None
    )
    stemmer: str | None = parameter(NONE | instance(str, "the name of a language"), default=None)
    ngram_range: tuple[int, int] = parameter(
        Rule("a pair of integers of at least 1, in ascending order", _is_ngram_range), default=(1, 1)
    )
    min_df: float = parameter(whole(1) | real(0, 1), default=1)
    max_df: float = parameter(whole(1) | real(0, 1), default=1.0)
    max_features: int | None = parameter(whole(1) | NONE, default=None)
    smoothing: str = parameter(SMOOTHING_RULES["smoothing"], default="laplace")
    alpha: float = parameter(real(0), default=1.0)
    fit_prior: bool = parameter(FLAG, default=True)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.input_tags.sparse = False
        return tags

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> TextClassifier:
        """Fit the model to labelled texts.

        Parameters
        ----------
        X : list or array of str, shape (n_samples,), or a table with one column, including files and streams
            Texts. Missing texts are treated as empty.
        y : array of shape (n_samples,), or the name of a column
            Class labels.
        sample_weight : array of shape (n_samples,), optional
            Weights of the texts. A weight of 2 is equivalent to repeating the text. If all weights are integers, this
            also applies to `min_df`, `max_df` and `max_features`.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.model == "complement" and self.smoothing != "laplace":
            raise ValueError(f"smoothing must be 'laplace' with model='complement'; got {self.smoothing!r}.")
        texts = texts_of(X, min_texts=self._comm.size == 1)
        labels = self._read_target(y)
        if len(labels) != len(texts):
            raise ValueError(f"X and y must have the same number of rows; got {len(texts)} and {len(labels)}.")
        weight = check_weights(sample_weight, len(texts), self._comm)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            texts = take_rows(texts, kept) if isinstance(texts, RowSource) else [texts[row] for row in kept]
            labels, weight = labels[kept], weight[kept]
        target = self._learn_target(labels)
        self._column = text_column_name(X)
        classifier = self._make_classifier()
        if isinstance(texts, RowSource) and self._comm.size == 1:
            rows = Batch(texts, target.astype(np.int32), weight, len(self.classes_), 1, None)
            presence_only = isinstance(classifier, BernoulliNB)
            terms, sums = self._read_within_limit(
                texts,
                target,
                lambda texts: sum_terms(rows._replace(X=texts), self._make_vectorizer(), presence_only=presence_only),
                weighted=weight is not None,
            )
            self._set_vocabulary(terms)
            class_counts = sums_by_class(rows.y, weight, rows.n_classes, LOCAL)
            self.classifier_ = classifier._fit_to_sums(sums, class_counts, self.classes_)
            return self
        counts = self._learn_terms(texts, weight)
        with classifier._using_comm(self._comm):
            self.classifier_ = classifier.fit(counts, labels, weight)
        return self

    def _learn_terms(self, texts: Any, weight: Array | None) -> Any:
        """Learn the vocabulary, set it, and return the counts of its terms: a CSR matrix, or a row source of matrices.

        The counts are a row source if `texts` is one and the vocabulary had to be learned in a separate pass.
        """
        vectorizer = self._make_vectorizer()
        if self._comm.size > 1 or (weight is not None and self._selects_terms()):
            self._set_vocabulary(learn_terms(texts, weight, vectorizer, self._comm))
            is_source = isinstance(texts, RowSource)
            return CountedTexts(texts, self._vectorizer) if is_source else self._count_terms(texts)
        with explain_empty_vocabulary():
            counts = vectorizer.fit_transform(texts).astype(np.float64)
        self._set_vocabulary(vectorizer.get_feature_names_out())
        return counts

    def _selects_terms(self) -> bool:
        """Return True if the vocabulary depends on the frequencies of terms."""
        takes_all = isinstance(self.max_df, float) and self.max_df == 1 and self.min_df in (0, 1)
        return self.max_features is not None or not takes_all

    def _is_source(self, X: Any) -> bool:
        """Return True if `X` is read in parts, such as a file name or a stream; other strings are mistaken texts."""
        # A string that is not a file name is a single text, passed by mistake instead of a list.
        return super()._is_source(X) and (not isinstance(X, str) or is_file_name(X))

    def _make_vectorizer(self, terms: Any = None) -> CountVectorizer:
        """Return a CountVectorizer with the parameters of the model and, if `terms` is passed, a fixed vocabulary."""
        by_model = "english" if self.model == DOCUMENTS else None
        chosen = by_model if self.stop_words is None else self.stop_words
        stop_words = ENGLISH_STOP_WORDS if isinstance(chosen, str) else frozenset(chosen or ())
        return CountVectorizer(
            tokenizer=Tokenizer(stop_words, by_model if self.stemmer is None else self.stemmer),
            token_pattern=None,
            lowercase=self.lowercase,
            ngram_range=tuple(self.ngram_range),
            min_df=self.min_df or 0.0,  # CountVectorizer rejects the integer 0
            max_df=self.max_df or 0.0,
            max_features=self.max_features,
            binary=self.features == "binary",
            vocabulary=None if terms is None else {term: index for index, term in enumerate(terms)},
        )

    def _make_classifier(self) -> Any:
        """Return the unfitted naive Bayes model that `model` names."""
        common: dict[str, Any] = {"alpha": self.alpha, "fit_prior": self.fit_prior, "n_jobs": self.n_jobs}
        if self.model != "complement":
            common["smoothing"] = self.smoothing
        return MODELS[self.model](**common)

    def _set_vocabulary(self, terms: Any) -> None:
        """Set `terms_` and the vectorizer with this vocabulary."""
        self.terms_ = np.asarray(terms, dtype=np.str_)
        self._vectorizer = self._make_vectorizer(self.terms_.tolist())

    # Predict --------------------------------------------------

    def transform(self, X: ArrayLike) -> Any:
        """Return the counts, or the presence, of the vocabulary terms in texts as a CSR matrix of floats."""
        self._check_fitted()
        return self._count_terms(texts_of(X, name=self._column))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the column names of `transform`, which are the terms; `input_features` is ignored."""
        self._check_fitted()
        return self.terms_.astype(object)

    def _count_terms(self, texts: Any) -> Any:
        """Return the counts of the vocabulary terms in texts, a CSR matrix of float64."""
        return self._vectorizer.transform(texts).astype(np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class of each text, shape (n_samples,)."""
        counts = self.transform(X)
        return self.classifier_.predict(counts)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log P(class | text), shape (n_samples, n_classes)."""
        counts = self.transform(X)
        return self.classifier_.predict_log_proba(counts)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return P(class | text), shape (n_samples, n_classes)."""
        counts = self.transform(X)
        return self.classifier_.predict_proba(counts)

    def most_informative_terms(self, n: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """Return the most characteristic terms of each class.

        Parameters
        ----------
        n : int, default=10
            Maximum number of terms for each class.

        Returns
        -------
        dict of lists of (term, score), by label
            Terms in descending order of score, which is log P(term | class) - log P(term | all other classes), with
            smoothed probabilities.
        """
        self._check_fitted()
        whole(1).check("n", n)
        likelihood = self.classifier_._likelihoods[0]
        groups, counts = likelihood.groups(), likelihood.counts
        with np.errstate(divide="ignore", invalid="ignore"):
            class_logs = log(groups.estimate(counts, "bayes"))
            scores = class_logs - log(groups.estimate(counts.sum(axis=0) - counts, "bayes"))
        if issubclass(MODELS[self.model], BernoulliNB):
            scores = scores[:, 1::2]
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        return {
            label: [(str(self.terms_[k]), float(scores[row, k])) for k in best[row]]
            for row, label in enumerate(self.classes_.tolist())
        }

    # Saving --------------------------------------------------

    def _encoder_state(self) -> dict[str, Any]:
        """Return the vocabulary, the column name and the state of the classifier for the model file."""
        return {"terms": self.terms_.tolist(), "column": self._column, "classifier": self.classifier_._to_state()[1]}

    def _restore_encoder(self, state: dict[str, Any]) -> None:
        """Set the vocabulary and the column name from the state of a model file; keep the classifier's state.

        Raises ValueError if the vocabulary is malformed.
        """
        terms = state["terms"]
        if not all(isinstance(term, str) for term in terms) or len(set(terms)) != len(terms):
            raise ValueError("the vocabulary is malformed")
        self._classifier_state = state["classifier"]
        self._column = state.get("column")
        self._set_vocabulary(terms)

    def _classifier_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the classifier by name, for the model file."""
        return {f"classifier.{name}": array for name, array in self.classifier_._to_state()[0].items()}

    def _restore_classifier(self, arrays: dict[str, np.ndarray]) -> None:
        """Set `classifier_` and `classes_` from the arrays of a model file; raise ValueError if they do not match."""
        state = {name.removeprefix("classifier."): array for name, array in arrays.items()}
        self.classifier_ = MODELS[self.model]._from_state(state, self.__dict__.pop("_classifier_state"))
        if self.classifier_.n_features_in_ != len(self.terms_):
            raise ValueError("the vocabulary does not match the counts")
        self.classes_ = self.classifier_.classes_

    _saved: ClassVar[SavedParts] = (Saved(_classifier_arrays, _restore_classifier),)
