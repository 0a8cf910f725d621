"""An independent float64 truth for every loss: plain loops, written from the papers.

A batch is a matrix of logits and, for each anchor, its explicit sets of positives and negatives; a loss is a loop
over those sets that reads like its equation. Nothing of the library is used, and speed is no concern.

Notation: t an anchor, P(t) its positives with weights w_tp, N(t) its negatives, A(t) = P(t) ∪ N(t), s_ta a logit.
"SINCERE" is Feeney and Hughes 2023 (arXiv 2309.14277v1), "SupCon" is Khosla et al. 2020 (arXiv 2004.11362).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = list[float | None]  # one loss per anchor, None where the anchor carries none
Anchor = tuple[list[float], dict[int, float], list[int]]


@dataclass(frozen=True)
class Batch:
    """Logits s (n, m), already divided by the temperature, and the sets of each of the n anchors."""

    s: np.ndarray
    positives: list[dict[int, float]]
    negatives: list[list[int]]

    def anchors(self) -> Iterator[Anchor]:
        """(row of logits, {positive: weight}, negatives) of each anchor, in order."""
        return zip(self.s.tolist(), self.positives, self.negatives, strict=True)


def similarity_matrix(anchors: Any, contrasts: Any, similarity: str) -> np.ndarray:
    """sim(a, b) for every pair: cosine a·b/(‖a‖‖b‖), 0 if either is the zero vector; dot a·b; euclidean −½‖a−b‖²."""
    assert similarity in ("cosine", "dot", "euclidean"), similarity
    rows, columns = (np.asarray(x, dtype=np.float64).tolist() for x in (anchors, contrasts))
    if similarity == "cosine":
        # Dividing before the product keeps very long and very short vectors in range.
        rows, columns = ([[x / (math.hypot(*v) or 1.0) for x in v] for v in vectors] for vectors in (rows, columns))
    result = np.zeros((len(rows), len(columns)))
    for i, a in enumerate(rows):
        for j, b in enumerate(columns):
            if similarity in ("cosine", "dot"):
                result[i, j] = math.fsum(x * y for x, y in zip(a, b, strict=True))
            else:
                result[i, j] = -0.5 * math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return result


def batch_from_labels(
    z: Any, labels: Any, temperature: float, similarity: str = "cosine", *, ignore_label: int = -1, **options: Any
) -> Batch:
    """Integer labels: P(t) = the other contrasts of t's class, w = 1; N(t) = other classes. Options: `_batch`."""
    options |= {"similarity": similarity, "unlabelled": lambda y: y == ignore_label}
    return _batch(z, labels, temperature, weight=lambda y, c: float(y == c), **options)


def batch_from_multihot(z: Any, hot: Any, temperature: float, weighting: str = "any", **options: Any) -> Batch:
    """Multi-hot labels: P(t) shares a label with t, N(t) shares none; a row with a negative entry is unlabelled.

    w_tp = 1 ("any"), |y_t ∩ y_p| / |y_t ∪ y_p| ("jaccard"), or the sum over shared labels of 1 / the number of t's
    positives that carry it ("per_label"). Options: those of `_batch`.
    """

    def weight(y: np.ndarray, c: np.ndarray) -> float:
        mine, theirs = ({i for i, x in enumerate(row) if x > 0} for row in (y, c))
        jaccard = len(mine & theirs) / max(len(mine | theirs), 1)
        return jaccard if weighting == "jaccard" else float(jaccard > 0)

    batch = _batch(z, hot, temperature, weight=weight, **options)
    if weighting != "per_label":
        return batch
    contrasts = options.get("contrast_labels")
    columns = hot if contrasts is None else [*hot, *contrasts] if options.get("include_batch") else contrasts
    shares: list[dict[int, float]] = []
    for y, positives in zip(hot, batch.positives, strict=True):
        share = dict.fromkeys(positives, 0.0)
        for label in (label for label, carried in enumerate(y) if carried > 0):
            members = [p for p in positives if columns[p][label] > 0]
            for p in members:
                share[p] += 1 / len(members)
        shares.append(share)
    return Batch(batch.s, shares, batch.negatives)


def batch_from_soft(z: Any, probs: Any, temperature: float, **options: Any) -> Batch:
    """Soft labels: w_tp is the cosine of the two label rows; weight 0 makes a negative. Options: as for multi-hot."""
    return _batch(z, probs, temperature, weight=lambda y, c: similarity_matrix([y], [c], "cosine").item(), **options)


def batch_from_pair_weights(z: Any, W: Any, temperature: float, similarity: str = "cosine") -> Batch:
    """W[t][a] > 0 makes a a positive of t with that weight, 0 a negative; the diagonal (self) is left out."""
    weights, n = np.asarray(W, dtype=np.float64).tolist(), len(z)
    positives = [{a: weights[t][a] for a in range(n) if a != t and weights[t][a] > 0} for t in range(n)]
    negatives = [[a for a in range(n) if a != t and weights[t][a] == 0] for t in range(n)]
    return Batch(similarity_matrix(z, z, similarity) / temperature, positives, negatives)


def fold_views(x_bvd: Any, labels_b: Any) -> tuple[np.ndarray, np.ndarray]:
    """(b, v, d) and b labels (integers or rows) to (b·v, d) and b·v labels; the views of a sample stay together."""
    x = np.asarray(x_bvd, dtype=np.float64)
    return x.reshape(-1, x.shape[2]), np.repeat(np.asarray(labels_b), x.shape[1], axis=0)


def other_views(samples: int, views: int) -> list[list[int]]:
    """For each row of a folded batch, the rows that are other views of its sample: the `own_views` of `spread`."""
    rows = range(samples * views)
    return [[other for other in rows if other != row and other // views == row // views] for row in rows]


def _batch(
    z: Any,
    labels: Any,
    temperature: float,
    weight: Callable[[Any, Any], float],
    unlabelled: Callable[[Any], bool] = lambda row: min(row) < 0,
    similarity: str = "cosine",
    contrast_z: Any = None,
    contrast_labels: Any = None,
    include_batch: bool = False,
    ignored_as_negatives: bool = False,
) -> Batch:
    """The sets of every anchor from a weight of two labels (0: a negative) and a test for "unlabelled".

    Contrasts are the batch itself, or those given, or with include_batch the batch followed by those given. An
    unlabelled sample is no anchor, and no contrast unless it is to be a negative of every labelled anchor.
    """
    z, labels, with_batch = np.asarray(z, dtype=np.float64), np.asarray(labels), contrast_z is None or include_batch
    columns, column_labels = (list(z), list(labels)) if with_batch else ([], [])
    if contrast_z is not None:
        columns += list(np.asarray(contrast_z, dtype=np.float64))
        column_labels += list(np.asarray(contrast_labels))
    positives: list[dict[int, float]] = [{} for _ in labels]
    negatives: list[list[int]] = [[] for _ in labels]
    for t, y in enumerate(labels):
        for a, c in enumerate(column_labels):
            if unlabelled(y) or (with_batch and a == t) or (unlabelled(c) and not ignored_as_negatives):
                continue
            if not unlabelled(c) and weight(y, c) > 0:
                positives[t][a] = weight(y, c)
            else:
                negatives[t].append(a)
    return Batch(similarity_matrix(z, columns, similarity) / temperature, positives, negatives)


def logsumexp(values: Iterable[float]) -> float:
    """log Σ e^x, −inf for no values. log1p over all but the largest keeps a result near 0 fully accurate."""
    terms = list(values)
    top = max(terms, default=-math.inf)
    if top == -math.inf:
        return top
    terms.remove(top)
    return top + math.log1p(math.fsum(math.exp(x - top) for x in terms))


def neg_log_ratio(numerator: float, denominator: Iterable[float]) -> float:
    """−log( e^numerator / Σ_j e^{denominator_j} ), without the cancellation of a difference of two large logs."""
    return logsumexp(x - numerator for x in denominator)


def mean_over_positives(batch: Batch, denominator: Callable[[list[float], int, Any, Any], list[float]]) -> Values:
    """ℓ_t = Σ_p w_tp (log D_tp − s_tp) / Σ_p w_tp, `denominator` lists the logits in D_tp; None if P or D is empty."""
    values: Values = []
    for s, P, N in batch.anchors():
        D = {p: denominator(s, p, P, N) for p in P}
        total = math.fsum(w * neg_log_ratio(s[p], D[p]) for p, w in P.items() if D[p])
        values.append(total / math.fsum(P.values()) if P and all(D.values()) else None)
    return values


def sincere(batch: Batch) -> Values:
    """D_tp = e^{s_tp} + Σ_N e^{s_tn}. Source: SINCERE Eq. 12."""
    return mean_over_positives(batch, lambda s, p, P, N: [s[p], *(s[n] for n in N)])


def supcon_out(batch: Batch) -> Values:
    """D_tp = Σ_P e^{s_ti} + Σ_N e^{s_tn}. Source: SupCon Eq. 2 = SINCERE Eq. 3."""
    return mean_over_positives(batch, lambda s, p, P, N: [*(s[i] for i in P), *(s[n] for n in N)])


def eps_supinfonce(batch: Batch, epsilon: float) -> Values:
    """D_tp = e^{s_tp − ε} + Σ_N e^{s_tn}. Source: Barbano et al. 2023, ε-SupInfoNCE."""
    return mean_over_positives(batch, lambda s, p, P, N: [s[p] - epsilon, *(s[n] for n in N)])


def decoupled(batch: Batch) -> Values:
    """D_tp = Σ_N e^{s_tn}, so None without negatives. Source: Yeh et al. 2022, supervised form."""
    return mean_over_positives(batch, lambda s, p, P, N: [s[n] for n in N])


def supcon_in(batch: Batch) -> Values:
    """ℓ_t = −log( (Σ_P w_tp e^{s_tp} / Σ_P w_tp) / Σ_A e^{s_ta} ). Source: SupCon Eq. 3 (the mean inside the log)."""
    values: Values = []
    for s, P, N in batch.anchors():
        total = math.fsum(P.values())
        mean_inside = logsumexp(math.log(w / total) + s[p] for p, w in P.items())
        values.append(neg_log_ratio(mean_inside, [s[a] for a in (*P, *N)]) if P else None)
    return values


def rank_n_contrast(s: Any, distances: Any, others: Sequence[Sequence[int]], *, spared: bool = False) -> Values:
    """ℓ_t = mean over j ∈ A(t) of −log( e^{s_tj} / Σ_{k ∈ S_tj} e^{s_tk} ), S_tj = {k ∈ A: d_tk ≥ d_tj}.

    Source: Zha et al. 2023 (arXiv 2210.01189), Eq. 1 and 2. `spared`: S_tj = {j} ∪ {k ∈ A: d_tk > d_tj}, and j with
    nobody farther do not count.
    """
    values: Values = []
    for row, far, A in zip(np.asarray(s).tolist(), np.asarray(distances).tolist(), others, strict=True):
        terms = []
        for j in A:
            S = [j] + [k for k in A if k != j and (far[k] > far[j] or (far[k] == far[j] and not spared))]
            if spared and len(S) == 1 and all(far[k] <= far[j] for k in A):
                continue
            highest = max(row[k] for k in S)
            terms.append(math.log(math.fsum(math.exp(row[k] - highest) for k in S)) + highest - row[j])
        values.append(math.fsum(terms) / len(terms) if terms else None)
    return values


def soft_label(batch: Batch) -> Values:
    """ℓ_t = −Σ_a ŵ_ta log softmax_A(s_t)_a with ŵ_t = w_t / Σ w_t. Source: Kim et al. 2022 (GenSCL)."""
    values: Values = []
    for s, P, N in batch.anchors():
        total, log_partition = math.fsum(P.values()), logsumexp(s[a] for a in (*P, *N))
        cross_entropy = -math.fsum(w / total * (s[a] - log_partition) for a, w in P.items())
        values.append(cross_entropy if P else None)
    return values


def spread(batch: Batch, alpha: float, own_views: Sequence[Sequence[int]]) -> Values:
    """ℓ_t = (1−α)·SINCERE_t + α·mean_{v ∈ own_views(t)} −log( e^{s_tv} / Σ_P w_tp e^{s_tp} ).

    Source: Chen et al. 2022, L_spread. None too where t's sample has no other view.
    """
    values: Values = []
    for (s, P, _), own, attract in zip(batch.anchors(), own_views, sincere(batch), strict=True):
        weighted = [math.log(w) + s[p] for p, w in P.items()]
        separate = math.fsum(neg_log_ratio(s[v], weighted) for v in own) / max(len(own), 1)
        values.append((1 - alpha) * attract + alpha * separate if attract is not None and own else None)
    return values


def set_nce(batch: Batch) -> Values:
    """ℓ_t = −(1/k) log( Π_P e^{s_tp} / Σ_{J ⊂ A, |J| = k} Π_J e^{s_tj} ), k = |P|, by enumerating every J.

    Source: SINCERE App. B Eq. 17 with e^s as the density ratio and t itself known. The set has no weights.
    """
    values: Values = []
    for s, P, N in batch.anchors():
        subsets = [math.fsum(s[j] for j in J) for J in itertools.combinations((*P, *N), len(P))]
        values.append(neg_log_ratio(math.fsum(s[p] for p in P), subsets) / len(P) if P else None)
    return values


def set_nce_by_recurrence(batch: Batch) -> Values:
    """The same loss through log e_k of the logits: for sizes whose subsets cannot be enumerated."""
    values: Values = []
    for s, P, N in batch.anchors():
        # e_k is homogeneous of degree k: taking the positives' mean off every logit takes Σ_P s_tp off log e_k.
        centre = math.fsum(s[p] for p in P) / max(len(P), 1)
        values.append(log_elementary([s[a] - centre for a in (*P, *N)], len(P)) / len(P) if P else None)
    return values


def log_elementary(scores: Sequence[float], k: int) -> float:
    """log e_k(e^{x_1}, …): e_j(x_1..x_i) = e_j(x_1..x_{i−1}) + e^{x_i}·e_{j−1}(x_1..x_{i−1}), in logs."""
    log_e = [0.0] + [-math.inf] * k
    for x in scores:
        for j in range(k, 0, -1):  # downwards, so that log_e[j − 1] is still the one without x
            log_e[j] = logsumexp([log_e[j], log_e[j - 1] + x])
    return log_e[k]


def reduce(values: Values, labelled: Any, labels: Any, reduction: str, weights: Any = None) -> float | np.ndarray:
    """The five reductions, with w_t = 1 unless given; valid anchors are those whose value is not None.

    mean Σwℓ/Σw over valid anchors; mean_all the same sum over Σw of all labelled anchors; class_mean the plain mean,
    over classes with a valid anchor, of each class's weighted mean (label rows: an anchor counts in each class with
    its membership); sum Σwℓ; none wℓ, 0 where invalid. Where nothing has weight the result is 0.
    """
    w = [1.0] * len(values) if weights is None else [float(x) for x in weights]
    valid = [(t, value) for t, value in enumerate(values) if value is not None]
    if reduction == "none":
        return np.array([w[t] * (value or 0.0) for t, value in enumerate(values)])
    total = math.fsum(w[t] * value for t, value in valid)
    if reduction == "sum":
        return total
    if reduction in ("mean", "mean_all"):
        counted = [t for t, _ in valid] if reduction == "mean" else [t for t, known in enumerate(labelled) if known]
        weight = math.fsum(w[t] for t in counted)
        return total / weight if weight > 0 else 0.0
    assert reduction == "class_mean", reduction
    members: dict[int, list[tuple[float, float]]] = {}
    for t, value in valid:
        of_anchor = {int(labels[t]): 1.0} if np.ndim(labels) == 1 else dict(enumerate(labels[t]))
        for label, membership in of_anchor.items():
            if w[t] * membership > 0:
                members.setdefault(label, []).append((w[t] * float(membership), value))
    means = [math.fsum(u * x for u, x in m) / math.fsum(u for u, _ in m) for m in members.values()]
    return math.fsum(means) / len(means) if means else 0.0


def _eps_supinfonce_gradient(s: list[float], P: dict[int, float], N: list[int], epsilon: float) -> dict[int, float]:
    """Eq. 13, per logit: ∂/∂s_tp = ŵ_p (e^{s_tp−ε}/D_p − 1) = −ŵ_p Σ_N e^{s_tn}/D_p, ∂/∂s_tn = Σ_p ŵ_p e^{s_tn}/D_p."""
    g, total, lse_N = dict.fromkeys((*P, *N), 0.0), math.fsum(P.values()), logsumexp(s[n] for n in N)
    for p, w in P.items():
        log_D = logsumexp([s[p] - epsilon, lse_N])
        g[p] -= w / total * math.exp(lse_N - log_D)
        for n in N:
            g[n] += w / total * math.exp(s[n] - log_D)
    return g


def _softmax(s: list[float], indices: Iterable[int], P: dict[int, float] | None = None) -> dict[int, float]:
    """{a: e^{s_a} / Σ e^s} over the indices, each e^{s_a} times its weight in P where given."""
    logits = {a: s[a] + (math.log(P[a]) if P else 0.0) for a in indices}
    log_partition = logsumexp(logits.values())
    return {a: math.exp(x - log_partition) for a, x in logits.items()}


def _inclusion(s: list[float], A: Sequence[int], k: int, by_recurrence: bool) -> dict[int, float]:
    """π_a = ∂ log e_k/∂s_a, the probability that a random k-subset, drawn ∝ Π e^s, holds a."""
    if by_recurrence:
        log_e, rest = log_elementary([s[b] for b in A], k), {a: [s[b] for b in A if b != a] for a in A}
        return {a: math.exp(s[a] + log_elementary(rest[a], k - 1) - log_e) for a in A}
    subsets = list(itertools.combinations(A, k))
    probability = _softmax([math.fsum(s[j] for j in J) for J in subsets], range(len(subsets)))
    return {a: math.fsum(probability[i] for i, J in enumerate(subsets) if a in J) for a in A}


def _anchor_gradient(loss_name: str, anchor: Anchor, own: Sequence[int], **kw: float) -> dict[int, float]:
    """∂ℓ_t/∂s_ta for each a in A(t); ŵ_p = w_tp / Σ_P w_tp."""
    s, P, N = anchor
    A, share, within = (*P, *N), {p: w / math.fsum(P.values()) for p, w in P.items()}, _softmax(s, P, P)
    if loss_name in ("sincere", "eps_supinfonce"):
        return _eps_supinfonce_gradient(s, P, N, kw["epsilon"] if loss_name == "eps_supinfonce" else 0.0)
    if loss_name in ("supcon_out", "soft_label", "supcon_in"):  # SINCERE Eq. 14: softmax_A − ŵ
        pull = within if loss_name == "supcon_in" else share  # the mean inside the log: softmax over P in place of ŵ
        return {a: x - pull.get(a, 0.0) for a, x in _softmax(s, A).items()}
    if loss_name == "decoupled":
        return {p: -x for p, x in share.items()} | _softmax(s, N)
    if loss_name == "spread":
        attract, alpha = _eps_supinfonce_gradient(s, P, N, 0.0), kw["alpha"]
        separate = {a: within.get(a, 0.0) - (a in own) / len(own) for a in A}
        return {a: (1 - alpha) * attract[a] + alpha * separate[a] for a in A}
    if loss_name in ("set_nce", "set_nce_by_recurrence"):  # (π_p − 1)/k and π_n/k
        inclusion = _inclusion(s, A, len(P), by_recurrence=loss_name == "set_nce_by_recurrence")
        return {a: (x - (a in P)) / len(P) for a, x in inclusion.items()}
    raise ValueError(f"unknown loss {loss_name!r}")


def logit_gradient(batch: Batch, loss_name: str, coefficients: Any, **kw: Any) -> np.ndarray:
    """∂(Σ_t c_t ℓ_t)/∂s, (n, m): the analytic formulas, 0 outside A(t); kw are the options of the loss itself."""
    gradient, own_views = np.zeros_like(batch.s), kw.pop("own_views", None)
    for t, anchor in enumerate(batch.anchors()):
        own = own_views[t] if own_views is not None else []
        missing = {"decoupled": not anchor[2], "spread": not own}.get(loss_name, False)
        if anchor[1] and not missing:
            for a, g in _anchor_gradient(loss_name, anchor, own, **kw).items():
                gradient[t, a] = float(coefficients[t]) * g
    return gradient
