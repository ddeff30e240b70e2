"""Structure learning: graphs, family scores, hill climbing, Chow-Liu trees, TAN and KDB."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import (
    CodedRows,
    LabelledCodes,
    class_counts,
    family_counts,
    n_cells,
    offsets_of,
    pair_counts,
    without_missing,
)
from fastens.bayes.counts.dirichlet import class_information, maximum_spanning_tree, mutual_information
from fastens.bayes.counts.regressions import family_moments, gaussian_fit
from fastens.engine.elementary import gammaln, log, xlogy

SCORES = ("bic", "aic", "bdeu", "k2")
DENSE_CELLS = 1 << 16  # larger tables are counted by observed combinations
BATCH_CELLS = 1 << 22
SCORE_DIGITS = 6

Candidate = tuple[int, tuple[int, ...]]  # a variable and its parents, in ascending order
Addition = tuple[Candidate, int]  # a family and one of its parents


class FamilyScores:
    """Local scores of families on coded rows; larger is better, and the score of a network is the sum.

    "bic" and "aic" are the log likelihood minus log(n) / 2, or 1, for each free parameter (Schwarz 1978; Akaike 1974).
    "bdeu" and "k2" are the log evidence under Dirichlet priors with pseudo-counts of `ess` / (r q), or 1, for each of
    the r q cells (Heckerman, Geiger & Chickering 1995, eq. 28; Cooper & Herskovits 1992, eq. 12).

    With missing values, the counts of a family use the rows in which it is known. The gain of a parent is computed on
    the rows in which the family including this parent is known, because score differences between different sets of
    rows are random and larger than typical gains. The gain is -infinity for a parent that is never known together with
    the variable.
    """

    def __init__(self, rows: CodedRows, score: str = "bic", ess: float = 1.0) -> None:
        self.rows, self.sizes, self.n_rows = rows, rows.sizes, rows.n_copies()
        self._per_parameter = {"bic": 0.5 * log(max(self.n_rows, 1.0)), "aic": 1.0}.get(score)
        self._ess = ess if score == "bdeu" else None
        self._scores: dict[Candidate, float] = {}
        self._added: dict[Addition, float] = {}
        self._is_complete = all(rows.comm.allgather(bool(rows.codes.all())))

    def bound(self, candidate: Candidate) -> float:
        """Return an upper bound of a family's score: inf if values are missing or the child is continuous."""
        if not self._is_complete or self._is_continuous(candidate):
            return np.inf
        if self._per_parameter is None:
            return 0.0
        child, parents = candidate
        return -self._per_parameter * n_cells(parents, self.sizes.tolist()) * (int(self.sizes[child]) - 1)

    def family_scores(self, candidates: Iterable[Candidate]) -> list[float]:
        """Return the score of each family; families that are not cached are counted together."""
        candidates = list(candidates)
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._scores]
        self._scores |= {
            candidate: self._score_regressions(candidate) for candidate in new if self._is_continuous(candidate)
        }
        new = [candidate for candidate in new if not self._is_continuous(candidate)]
        for batch, counts in self._count_batches(new):
            scores, _ = self._score_counts(batch, counts)
            self._scores.update(zip(batch, scores.tolist(), strict=True))
        return [self._scores[candidate] for candidate in candidates]

    def parent_gains(self, additions: Iterable[Addition]) -> list[float]:
        """Return for each pair (family, one of its parents) the score of the family minus its score without the parent.

        Both scores use the rows in which the family is known. Without such rows, the gain is -inf.
        """
        additions = list(additions)
        if self._is_complete:
            scores = self.family_scores(candidate for candidate, _ in additions)
            others = self.family_scores(_drop_parent(*addition) for addition in additions)
            return [score - other for score, other in zip(scores, others, strict=True)]
        new = [addition for addition in dict.fromkeys(additions) if addition not in self._added]
        for candidate, parent in new:
            if self._is_continuous(candidate):
                gain = self._score_regressions(candidate) - self._score_regressions(
                    _drop_parent(candidate, parent), parent
                )
                self._added[candidate, parent] = -np.inf if np.isnan(gain) else gain
        new = [addition for addition in new if not self._is_continuous(addition[0])]
        first = 0
        for batch, counts in self._count_batches([candidate for candidate, _ in new]):
            batch_additions = new[first : first + len(batch)]
            first += len(batch)
            fewer = [
                self._marginal_counts(*addition, table) for addition, table in zip(batch_additions, counts, strict=True)
            ]
            gains, n_known = self._score_counts(batch, counts)
            gains -= self._score_counts([_drop_parent(*addition) for addition in batch_additions], fewer)[0]
            gains[n_known == 0] = -np.inf
            self._added.update(zip(batch_additions, gains.tolist(), strict=True))
        return [self._added[addition] for addition in additions]

    def _is_continuous(self, candidate: Candidate) -> bool:
        """Return True if the child of the family is a continuous variable."""
        return candidate[0] in self.rows.continuous

    def _score_regressions(self, candidate: Candidate, *also_known: int) -> float:
        """Return the score of the regressions of a continuous variable on its parents, or NaN without rows.

        It uses the rows in which the family and the variables `also_known` are known.
        """
        moments = family_moments(self.rows.of_all_ranks(), *candidate, also_known)
        fit, n_cells_with_rows = gaussian_fit(moments)
        penalty = (self._per_parameter or 0.0) * len(moments) * moments.shape[-1]
        # Equivalent structures tie only if rounding errors, which depend on the order of the rows, are removed.
        return round(fit - penalty, SCORE_DIGITS) if n_cells_with_rows else np.nan

    def _count_batches(self, candidates: list[Candidate]) -> Iterator[tuple[list[Candidate], list[NDArray[Any]]]]:
        """Yield consecutive batches of families and their counts, which fit in memory.

        Counts are dense tables; a family with a large table is a batch of its own, with counts of observed
        combinations.
        """
        sizes = self.sizes.tolist()
        batch: list[Candidate] = []
        waiting = 0
        for candidate in candidates:
            cells = n_cells(candidate[1], sizes) * sizes[candidate[0]]
            if batch and (cells > DENSE_CELLS or waiting + cells > BATCH_CELLS):
                yield batch, self._dense_counts(batch)
                batch, waiting = [], 0
            if cells > DENSE_CELLS:
                yield [candidate], [self._sparse_counts(candidate)]
            else:
                batch.append(candidate)
                waiting += cells
        if batch:
            yield batch, self._dense_counts(batch)

    def _dense_counts(self, batch: list[Candidate]) -> list[NDArray[Any]]:
        """Return the table of counts of each family, with one axis for each parent and a last axis for the child."""
        return list(family_counts(self.rows, [(*parents, child) for child, parents in batch]))

    def _marginal_counts(self, candidate: Candidate, parent: int, counts: NDArray[Any]) -> NDArray[Any]:
        """Return the counts of a family without `parent`, over the rows in which this parent is known.

        `counts` holds the counts with this parent.
        """
        if counts.ndim == len(candidate[1]) + 1:
            summed: NDArray[Any] = counts.sum(axis=candidate[1].index(parent))
            return summed
        return self._sparse_counts(_drop_parent(candidate, parent), parent)

    def _sparse_counts(self, candidate: Candidate, *also_known: int) -> Array:
        """Return counts by observed combination of parent values and child value, (n_combinations, n_values).

        Only rows in which the family and the variables `also_known` are known are counted.
        """
        child, parents = candidate
        self.rows = self.rows.of_all_ranks()  # combinations are numbered globally
        codes, weights = self.rows.codes, self.rows.weights
        is_known = (codes[[*parents, child, *also_known]] > 0).all(axis=0)
        if not is_known.any():
            return np.zeros((1, int(self.sizes[child])))
        combination = number_combinations(codes[list(parents)][:, is_known], self.sizes[list(parents)])
        n_combinations, size = int(combination.max()) + 1, int(self.sizes[child])
        weights = None if weights is None else weights[is_known]
        cells = combination * size + codes[child][is_known] - 1
        return np.bincount(cells, weights, minlength=n_combinations * size).reshape(-1, size).astype(np.float64)

    def _score_counts(self, batch: list[Candidate], counts: Sequence[NDArray[Any]]) -> tuple[Array, Array]:
        """Return the scores of families and their total counts, shape (n_families,) each.

        The tables in `counts` may omit unobserved combinations of parent values.
        """
        sizes = self.sizes.tolist()
        n_values = self.sizes[[child for child, _ in batch]]
        n_combinations = np.array([n_cells(parents, sizes) for _, parents in batch], dtype=np.float64)
        n_rows = np.array([table.size for table in counts]) // n_values  # rows of each count table
        flat = np.concatenate([table.ravel() for table in counts]).astype(np.float64)
        cells, rows = offsets_of(n_rows * n_values)[:-1], offsets_of(n_rows)[:-1]
        total = np.add.reduceat(flat, cells)
        of_parents = np.add.reduceat(flat, offsets_of(np.repeat(n_values, n_rows))[:-1])
        if self._per_parameter is not None:
            scores = np.add.reduceat(xlogy(flat, flat), cells) - np.add.reduceat(xlogy(of_parents, of_parents), rows)
            scores -= self._per_parameter * n_combinations * (n_values - 1)
        else:
            pseudo = np.ones(len(batch)) if self._ess is None else self._ess / (n_values * n_combinations)
            of_cells, of_rows = np.repeat(pseudo, n_rows * n_values), np.repeat(pseudo * n_values, n_rows)
            scores = np.add.reduceat(gammaln(flat + of_cells) - gammaln(of_cells), cells)
            scores += np.add.reduceat(gammaln(of_rows) - gammaln(of_rows + of_parents), rows)
        return scores, total


def number_combinations(codes: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the distinct columns of `codes`, (n_variables, n_rows), from 0; return the number of each, (n_rows,)."""
    numbers = np.zeros(codes.shape[1], dtype=np.int64)
    for column, size in zip(codes, sizes.tolist(), strict=True):
        # Renumber after each column, because the product of all sizes may overflow.
        numbers = np.unique(numbers * (size + 1) + column, return_inverse=True)[1].ravel()
    return numbers


def _drop_parent(candidate: Candidate, parent: int) -> Candidate:
    """Return a family without one of its parents."""
    child, parents = candidate
    return child, tuple([other for other in parents if other != parent])


Parents = tuple[tuple[int, ...], ...]


class CycleError(ValueError):
    """Raised if the graph has a directed cycle."""


def topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the variables in topological order; ties are in ascending order.

    Raises CycleError, with the variables that cannot be ordered in its args, if there is a cycle.
    """
    waiting = [len(set(node_parents)) for node_parents in parents]
    children = children_of(parents)
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:
        for child in children[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    if len(order) < len(parents):
        raise CycleError([node for node, count in enumerate(waiting) if count])
    return order


def children_of(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the list of children of each variable."""
    children: list[list[int]] = [[] for _ in parents]
    for node, node_parents in enumerate(parents):
        for parent in dict.fromkeys(node_parents):
            children[parent].append(node)
    return children


def ancestors(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    """Return the set of `nodes` and all of their ancestors."""
    reached = set(nodes)
    waiting = list(reached)
    while waiting:
        new = set(parents[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return reached


def check_acyclic(parents: Sequence[Sequence[int]], names: Sequence[Any]) -> None:
    """Raise ValueError, naming the variables, if there is a directed cycle."""
    try:
        topological_order(parents)
    except CycleError as error:
        among = [names[node] for node in error.args[0]]
        raise ValueError(f"structure must not have a directed cycle; got one among {among}.") from None


def parents_from(structure: Any, names: Sequence[Any], *, acyclic: bool = True) -> Parents:
    """Read a structure from a dict of parents by child or edges (parent, child), with variables by name or index.

    Raises ValueError if a variable is unknown, its own parent or a duplicate parent, or if there is a cycle, unless
    `acyclic` is False.
    """
    if isinstance(structure, Mapping):
        edges = [(parent, child) for child, child_parents in structure.items() for parent in _as_list(child_parents)]
        variables = [*structure, *(parent for parent, _ in edges)]
    else:
        edges = [_parse_edge(edge) for edge in structure]
        variables = [node for edge in edges for node in edge]
    numbers = {name: number for number, name in enumerate(names)}
    indices = {variable: _variable_index(variable, numbers) for variable in map(_check_hashable, variables)}
    parents: list[list[int]] = [[] for _ in names]
    for parent, child in edges:
        if indices[parent] == indices[child] or indices[parent] in parents[indices[child]]:
            raise ValueError(
                f"structure must list each edge once, between two different variables; got {parent!r} -> {child!r}."
            )
        parents[indices[child]].append(indices[parent])
    if acyclic:
        check_acyclic(parents, names)
    return tuple(map(tuple, parents))


def _as_list(parents: Any) -> list[Any]:
    """Return a list of parents; a single parent becomes a list of one item."""
    return list(parents) if isinstance(parents, list | tuple | set | frozenset) else [parents]


def _parse_edge(edge: Any) -> tuple[Any, Any]:
    """Return an edge as a tuple (parent, child); raise ValueError if it is not a pair."""
    if not isinstance(edge, list | tuple) or len(edge) != 2:
        raise ValueError(
            f"structure must be a dict that maps children to parents, or a list of pairs (parent, child); got {edge!r}."
        )
    return tuple(edge)


def _check_hashable(variable: Any) -> Any:
    """Return the variable; raise ValueError if it is not hashable and so cannot be the name of a variable."""
    if not isinstance(variable, Hashable):
        raise ValueError(f"structure must name variables of the network; got {variable!r}.")
    return variable


def _variable_index(variable: Any, numbers: Mapping[Any, int]) -> int:
    """Return the index of a variable from its name, a key of `numbers`, or index; raise ValueError if unknown."""
    if variable in numbers:
        return numbers[variable]
    if isinstance(variable, int) and not isinstance(variable, bool) and 0 <= variable < len(numbers):
        return variable
    raise ValueError(f"structure must name variables of the network, {list(numbers)}; got {variable!r}.")


Array = NDArray[np.float64]
MIN_GAIN = 1e-9  # relative to the score; smaller gains are rounding errors


class Move(NamedTuple):
    """Change of one edge and its gain in score."""

    gain: float
    kind: str
    parent: int
    child: int


class EdgeRules(NamedTuple):
    """Limits of structures: required and forbidden parents of each variable, and the maximum number of parents."""

    required: Parents = ()
    forbidden: Parents = ()
    max_parents: int = 3

    def check(self, names: Sequence[Any]) -> None:
        """Raise ValueError if an edge is required and forbidden, or a variable has too many required parents."""
        for child, (needed, ruled_out) in enumerate(zip(self.required, self.forbidden, strict=True)):
            if both := sorted(set(needed) & set(ruled_out)):
                edge = f"{names[both[0]]!r} -> {names[child]!r}"
                raise ValueError(f"required_edges must not contain forbidden edges; both contain {edge}.")
            if len(needed) > self.max_parents:
                raise ValueError(
                    f"max_parents must be at least {len(needed)}, the required parents of a variable; "
                    f"got {self.max_parents}."
                )


NO_RULES = EdgeRules()


def hill_climb(
    scores: FamilyScores, n_variables: int, *, rules: EdgeRules = NO_RULES, tabu: int = 0, max_moves: int = 10_000
) -> Parents:
    """Run hill-climbing from the required edges with the best change of one edge; return each variable's parents.

    `tabu` is the number of consecutive changes that may fail to improve on the best structure; with 0, only
    improvements are made. There are at most `max_moves` changes. No structure is visited twice (Glover 1986). See
    Heckerman, Geiger & Chickering (1995), "Learning Bayesian networks: the combination of knowledge and statistical
    data", section 7.2.
    """
    climb = _Climb(scores, n_variables, rules)
    best, best_score, since = climb.parents, climb.score, 0
    visited = {best}
    for _ in range(max_moves):
        move = climb.best_move(visited, -np.inf if tabu else climb.min_gain)
        if move is None:
            break
        climb.apply_move(move)
        visited.add(climb.parents)
        if climb.score > best_score + climb.min_gain:
            best, best_score, since = climb.parents, climb.score, 0
        else:
            since += 1
            if since >= max(tabu, 1):
                break
    return best


def _move_order(move: Move) -> tuple[float, str, int, int]:
    """Return the sort key of moves: descending gain, with ties by kind, parent and child."""
    return -move.gain, move.kind, move.parent, move.child


def _descendant_masks(parents: Parents) -> list[int]:
    """Return for each variable a bit mask of the variable itself and all of its descendants."""
    below = [1 << node for node in range(len(parents))]
    for node in reversed(topological_order(parents)):
        for parent in parents[node]:
            below[parent] |= below[node]
    return below


class _Climb:
    """Current structure and the gain of each change of an edge."""

    def __init__(self, scores: FamilyScores, n_variables: int, rules: EdgeRules) -> None:
        self._scores, self._max_parents = scores, rules.max_parents
        nothing: Parents = ((),) * n_variables
        self._required, self._forbidden = rules.required or nothing, rules.forbidden or nothing
        self.parents: Parents = tuple(tuple(sorted(parents)) for parents in self._required)
        self._current = np.array(scores.family_scores(enumerate(self.parents)))
        # By parent and child: the gain of adding the edge or, if it exists, of removing it.
        self._gains = np.full((n_variables, n_variables), -np.inf)
        self._compute_gains(range(n_variables))

    @property
    def score(self) -> float:
        """Score of the structure."""
        return float(self._current.sum())

    @property
    def min_gain(self) -> float:
        """Minimum gain; smaller gains are rounding errors."""
        return MIN_GAIN * max(1.0, abs(self.score))

    def _compute_gains(self, children: range | list[int]) -> None:
        """Set `_gains[:, children]`: the gain of adding each edge to a child or, if it exists, of removing it.

        The gain is -inf for changes that the rules exclude, and for additions that cannot improve the score.
        """
        tried: list[tuple[int, int, Addition]] = []
        for child in children:
            self._gains[:, child] = -np.inf
            for other in range(len(self.parents)):
                candidate = (child, self._toggled_parents(other, child))
                # Reversing an edge also adds a parent, so every variable except the child is a candidate.
                is_there = other in self.parents[child]
                is_fixed = other in (self._required if is_there else self._forbidden)[child]
                if other != child and not is_fixed and self._can_improve(candidate, is_there):
                    tried.append((other, child, ((child, self.parents[child]) if is_there else candidate, other)))
        gains = self._scores.parent_gains(addition for _, _, addition in tried)
        for (other, child, _), gain in zip(tried, gains, strict=True):
            self._gains[other, child] = -gain if other in self.parents[child] else gain

    def _toggled_parents(self, other: int, child: int) -> tuple[int, ...]:
        """Return the parents of `child` after `other` is added, or removed if it is a parent."""
        return tuple(sorted(set(self.parents[child]) ^ {other}))

    def _can_improve(self, candidate: Candidate, is_removal: bool) -> bool:
        """Return True for a removal; for an addition, return False if it certainly does not help.

        The new family `candidate` does not help if it has too many parents, or a bound of its score is not above the
        child's current score.
        """
        child, parents = candidate
        if is_removal:
            return True
        return len(parents) <= self._max_parents and self._scores.bound(candidate) > self._current[child]

    def best_move(self, visited: set[Parents], above: float) -> Move | None:
        """Return the move with the highest gain above `above` to an acyclic, unvisited structure, or None.

        Ties go to the first move.
        """
        below = _descendant_masks(self.parents)
        moves = heapq.merge(
            self._additions(above), sorted(self._removals_and_reversals(above), key=_move_order), key=_move_order
        )
        return next(
            (m for m in moves if not self._closes_cycle(m, below) and self._structure_after(m) not in visited), None
        )

    def _additions(self, above: float) -> Iterator[Move]:
        """Yield the additions of edges whose gain is above `above`, in descending order of gain."""
        gains = self._gains.copy()
        for child, parents in enumerate(self.parents):
            gains[list(parents), child] = -np.inf
        while True:
            parent, child = map(int, np.unravel_index(gains.argmax(), gains.shape))
            gain = float(gains[parent, child])
            if gain <= above or gain == -np.inf:
                return
            yield Move(gain, "add", parent, child)
            gains[parent, child] = -np.inf

    def _removals_and_reversals(self, above: float) -> Iterator[Move]:
        """Yield the removals and reversals of edges whose gain is above `above`, in no particular order."""
        for child, parents in enumerate(self.parents):
            for parent in parents:
                removed = float(self._gains[parent, child])
                if removed > above:
                    yield Move(removed, "remove", parent, child)
                turned = removed + float(self._gains[child, parent])
                if turned > above:
                    yield Move(turned, "turn", parent, child)

    def _closes_cycle(self, move: Move, below: list[int]) -> bool:
        """Return True if the move closes a cycle; `below[i]` is the bit mask of i and all of its descendants."""
        if move.kind == "add":
            return bool(below[move.child] >> move.parent & 1)
        if move.kind == "remove":
            return False
        # Reversal closes a cycle if there is another path from the parent to the child.
        others = (c for c, parents in enumerate(self.parents) if move.parent in parents and c != move.child)
        return any(below[other] >> move.child & 1 for other in others)

    def _structure_after(self, move: Move) -> Parents:
        """Return the parents of each variable after the move."""
        parents = list(self.parents)
        parents[move.child] = self._toggled_parents(move.parent, move.child)
        if move.kind == "turn":
            parents[move.parent] = self._toggled_parents(move.child, move.parent)
        return tuple(parents)

    def apply_move(self, move: Move) -> None:
        """Apply a move to the structure and update the scores and the gains."""
        self._current[move.child] += self._gains[move.parent, move.child]
        if move.kind == "turn":
            self._current[move.parent] += self._gains[move.child, move.parent]
        self.parents = self._structure_after(move)
        self._compute_gains([move.child, move.parent] if move.kind == "turn" else [move.child])


LEARNED = ("hill-climb", "pc", "chow-liu", "tan", "kdb")
WITH_EDGE_RULES = ("hill-climb", "pc")
WITH_CLASS = ("tan", "kdb")


def learn_structure(model: Any, data: CodedRows, rules: EdgeRules) -> Parents:
    """Return the parents of each variable, learned from `data` by the algorithm that `model.structure` names.

    For "tan" and "kdb", the last variable is the class. Only "hill-climb" uses `rules`; "pc" is not handled here.
    """
    if model.structure == "hill-climb":
        scores = FamilyScores(data, model.criterion, model.ess)
        return hill_climb(scores, len(data.sizes), rules=rules, tabu=model.tabu)
    if model.structure == "kdb":
        return kdb(data, model.max_parents - 1, model.min_information)
    return chow_liu(data) if model.structure == "chow-liu" else tan(data)


def chow_liu(data: CodedRows) -> Parents:
    """Return the maximum likelihood tree, rooted at the first variable (Chow & Liu 1968)."""
    nothing = np.zeros(data.codes.shape[1], dtype=np.int32)
    information = mutual_information(_pair_counts(data, nothing, 1), data.sizes)
    return tuple((parent,) if parent >= 0 else () for parent in maximum_spanning_tree(information).tolist())


def tan(data: CodedRows) -> Parents:
    """Return the TAN structure: the class is a parent of all variables, which form the best tree given the class.

    The root of the tree is the variable with the highest mutual information with the class.
    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", section 4.1.
    """
    last = len(data.sizes) - 1
    of_pairs, of_class = _class_conditional_information(data)
    tree = maximum_spanning_tree(of_pairs, int(of_class.argmax())).tolist()
    return (*((last, parent) if parent >= 0 else (last,) for parent in tree), ())


def kdb(data: CodedRows, k: int, min_information: float) -> Parents:
    """Return the KDB structure: the class and up to k higher-ranked variables are parents of each variable.

    Variables are ranked by mutual information with the class. The parents are the variables with the highest
    conditional mutual information given the class, if it exceeds `min_information`.
    Sahami (1996), "Learning limited dependence Bayesian classifiers", KDD-96.
    """
    last = len(data.sizes) - 1
    of_pairs, of_class = _class_conditional_information(data)
    parents: list[tuple[int, ...]] = [()] * (last + 1)
    order = np.argsort(-of_class, kind="stable")
    for rank, variable in enumerate(order):
        before = order[:rank]
        best = before[np.argsort(-of_pairs[variable, before], kind="stable")][:k]
        parents[variable] = (last, *best[of_pairs[variable, best] > min_information].tolist())
    return tuple(parents)


def _class_conditional_information(data: CodedRows) -> tuple[Array, Array]:
    """Return mutual information with the class, which is the last variable, in nats.

    The first array has the information of all pairs of other variables given the class, (n, n); the second has the
    information of each of them with the class, (n,).
    """
    last = len(data.sizes) - 1
    y = data.codes[last].astype(np.int32) - 1
    others = replace(data, codes=np.ascontiguousarray(data.codes[:last]), sizes=data.sizes[:last])
    n_classes = int(data.sizes[last])
    of_pairs = mutual_information(_pair_counts(others, y, n_classes), others.sizes)
    counts = class_counts(_with_labels(others, y), others.sizes + 1, n_classes)
    return of_pairs, class_information(without_missing(counts, others.sizes + 1), others.sizes)


def _pair_counts(data: CodedRows, y: NDArray[np.int32], n_classes: int) -> NDArray[Any]:
    """Return counts by class and pair of cells, (n_classes, n_cells, n_cells), where a cell is a variable's value."""
    n_codes = data.sizes + 1
    return without_missing(pair_counts(_with_labels(data, y), n_codes, n_classes), n_codes)


def _with_labels(data: CodedRows, y: NDArray[np.int32]) -> LabelledCodes:
    """Return coded rows with their class labels `y`, for counting."""
    return LabelledCodes(data.codes, y, data.weights, data.n_threads, data.comm)
