"""Which gated linear network is this ReLU network? Few gating patterns, found in how it trains.

make_haste_slowly Algorithm 1: gates of the hidden units over training and runs, clustered by k-means. Here
units count by the size of their weights, and the number of clusters is chosen by how well the network with
these constant gates follows the ReLU network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, choice, integer, number
from neuralrace.graph import Graph
from neuralrace.network import predict
from neuralrace.relu.gates import own_network
from neuralrace.relu.patterns import pattern_text
from neuralrace.relu.training import ReluNetwork, relu_chain, step_gates, train
from neuralrace.task import Task

LEARNED = 0.01  # of the initial loss, what a run that has converged may leave
STARTED = 0.9  # a run that leaves more than this has learned nothing
CLOSE = 0.005  # distances, relative to the targets, that count as equal
MOST_NUMBERS = 20_000_000  # in the patterns that are clustered
WORSE_IN_A_ROW = 2


@dataclass(frozen=True, eq=False)
class Discovery:
    """Gating patterns of a ReLU network: `patterns` `(k, n)` of 0 and 1, those open on most samples first.

    `centres` `(k, n)` are the mean gates of each cluster, weighted by the size of the units; `patterns` are 1
    where these are above one half, `ambiguity` `(k,)` is their mean distance from that, times two: 0 for
    centres of 0 and 1, 1 for centres of one half. `shares` `(k,)`: weight in each cluster. `elbow`: number of
    clusters -> distance between the outputs of the network and of the gated one, root mean square over saved
    times and runs, relative to the targets. `rule` says how it was measured and k chosen, `loss` `(runs,)`
    the last loss relative to that of a silent network, `warnings` what to beware of. `candidates` has the
    centres for every k that was tried.
    """

    patterns: np.ndarray
    centres: np.ndarray
    shares: np.ndarray
    elbow: dict[int, float]
    rule: str
    loss: np.ndarray
    candidates: dict[int, np.ndarray]
    layer: int
    moments: int
    warnings: tuple[str, ...] = ()

    @property
    def k(self) -> int:
        return len(self.patterns)

    @property
    def ambiguity(self) -> np.ndarray:
        return 2 * np.abs(self.centres - self.patterns).mean(axis=1)

    def by_context(self, context: Any) -> list[str]:
        """Each pattern with one digit per context, in the order of the labels `(n,)`; ? where it is mixed."""
        labels = _labels(context, self.patterns.shape[1])
        mean = np.stack([self.patterns[:, labels == c].mean(axis=1) for c in np.unique(labels)], axis=1)
        return ["".join("0" if m == 0 else "1" if m == 1 else "?" for m in row) for row in mean]

    def table(self) -> str:
        lines = [
            f"{self.k} patterns of layer {self.layer} on {self.patterns.shape[1]} samples, "
            f"from {len(self.loss)} run{'s' * (len(self.loss) > 1)} at {self.moments} times",
            "  share  ambiguity  pattern",
        ]
        for g, share, unclear in zip(self.patterns, self.shares, self.ambiguity, strict=True):
            lines.append(f"  {share:5.3f}  {unclear:9.3f}  {pattern_text(g)}")
        lines.append("  clusters  distance")
        for k, score in self.elbow.items():
            lines.append(f"  {k:8d}  {score:8.4f}{'  chosen' * (k == self.k)}")
        lines.append(f"  {self.rule}")
        return "\n".join([*lines, *(f"  beware: {text}" for text in self.warnings)])

    __repr__ = table

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers."""
        return {
            "k": self.k,
            "patterns": self.patterns.astype(int).tolist(),
            "centres": self.centres.tolist(),
            "shares": self.shares.tolist(),
            "ambiguity": self.ambiguity.tolist(),
            "elbow": {str(k): v for k, v in self.elbow.items()},
            "rule": self.rule,
            "loss": self.loss.tolist(),
            "layer": self.layer,
            "warnings": list(self.warnings),
        }


def discover(
    X: Any = None,
    Y: Any = None,
    hidden: Sequence[int] = (700,),
    k: int | None = None,
    runs: int = 3,
    std: float = 7e-6,
    lr: float = 1e-3,
    steps: int = 8000,
    every: int = 100,
    seed: int = 0,
    *,
    net: Any = None,
    layer: int = 1,
    most: int = 8,
    tolerance: float = 0.05,
    follow: str | None = None,
    weighted: bool = True,
    **keywords: Any,
) -> Discovery:
    """The few gating patterns of ReLU networks on inputs `X` `(n, in)` and targets `Y` `(n, out)`.

    Trains `runs` networks (see `train`; further `keywords` go there) and takes the gates of their units every
    `every` steps, or takes those of `net`: what `train` returned (X and Y are then known), or your own
    weights as matrices `(out, in)`, or `(times, out, in)`, in layer order in a list or dict, pairs of matrix
    and bias, a torch `Sequential` of `Linear` and `ReLU` layers, or a list of such dicts or modules, one per
    time. Runs of other `seed` share no initial weights.

    The patterns of hidden layer `layer` (1 is the first) that are not silent are clustered by k-means. A
    unit counts by the size of its weights at that time, the geometric mean of the lengths of incoming and
    outgoing ones (`weighted=False`: all units alike), so those that have not grown count little.

    `k` is chosen among 1 to `most` clusters if not given. With `follow="trained"` the network with constant
    gates is trained beside each run from the run's own initial weights, each unit with the pattern nearest to
    its last gates; k is the smallest that gains, over one cluster, all but `tolerance` of what the best k
    does (or comes within .005 of it); larger k are tried until two in a row are no better. With
    `follow="swapped"` the weights are those of the network at each time and only the gates of the layer are
    swapped for the nearest pattern, which needs no training; this distance tends to fall with every k, and k
    is where it lies farthest below the line from the first to the last. If not given, it is "trained" for
    networks with one hidden layer that `train` trained, else "swapped". Clusterings with two equal patterns
    are never chosen.

    >>> x, y = np.eye(4), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> discover(x, y, [100], std=1e-3, lr=0.1, steps=200, every=10).patterns.tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    tolerance, most = number("tolerance", tolerance, least=0), integer("most", most)
    k = None if k is None else integer("k", k)
    seen, warnings = _networks(X, Y, net, hidden, runs, std, lr, steps, every, seed, keywords)
    layer = integer("layer", layer)
    if layer > seen[0].depth:
        raise InputError(f"layer must be at most the number of ReLU layers, {seen[0].depth}; got {layer}")
    can = seen[0].trained is not None and seen[0].depth == 1
    if follow is None:
        follow = "trained" if can else "swapped"
    follow = str(choice("follow", follow, FOLLOW))
    if follow == "trained" and not can:
        raise InputError("follow='trained' needs networks with one hidden layer, trained by nr.relu.train")

    patterns, weights, left_out = _distinct(seen, layer, weighted)
    if left_out:
        warnings.append(f"{left_out:.1%} of the weight is in rare patterns, left out for their number")
    if k is not None and k > len(patterns):
        raise InputError(f"k must be at most the number of distinct patterns, {len(patterns)}; got {k}")
    score = _trained if follow == "trained" else _swapped
    elbow, found, worse = {}, {}, 0
    for m in range(1, min(most, len(patterns)) + 1) if k is None else [k]:
        found[m] = _cluster(patterns, weights, m, seed)
        distances = [score(one, _open(found[m][0]), layer - 1) for one in seen]
        worse = worse + 1 if elbow and min(elbow.values()) <= _rms(distances) else 0
        elbow[m] = _rms(distances)
        if follow == "trained" and worse == WORSE_IN_A_ROW:
            break
    chosen, rule = (
        (k, "number of clusters given") if k is not None else _choose(elbow, found, follow, tolerance)
    )
    centres, shares = found[chosen]
    if _repeats(centres):
        warnings.append("two clusters have the same pattern: fewer clusters say as much")
    return Discovery(
        _open(centres),
        centres,
        shares,
        elbow,
        rule,
        np.array([one.loss for one in seen]),
        {m: c for m, (c, _) in found.items()},
        layer,
        len(seen[0].moments),
        tuple(warnings),
    )


def mixed_share(net: Any, context: Any, i: int = -1, layer: int = 1, X: Any = None) -> float:
    """The share of a layer's weight in units that are open for some samples of a context and not for others.

    `context` `(n,)` labels the samples, `net` is what `train` returned, at save index `i`, or weights of your
    own with inputs `X`, as for `as_gdln`. Lemma 4.1 of make_haste_slowly has it zero. Silent units do not
    count; weight is the product of the lengths of incoming and outgoing weights.

    >>> mixed_share([[[3.0, -4.0], [4.0, 3.0]], [[1.0, 1.0]]], [0, 0], X=[[1.0, 0.0], [0.0, 1.0]])
    0.5
    """
    if isinstance(net, ReluNetwork):
        if net.many:
            raise InputError("net holds several seeds; choose one, as in net.run(0)")
        weights, graph, x = net.at(i), net.task.graph, net.X
    else:
        if X is None:
            raise InputError("X, the inputs, is needed with weights or a torch module")
        weights, graph = own_network(net)
        x = array("X", X, (None, graph.nodes["x"]))
    labels = _labels(context, len(x))
    if not 1 <= integer("layer", layer) <= len(graph.hidden):
        raise InputError(f"layer must be at most the number of ReLU layers, {len(graph.hidden)}; got {layer}")
    gates, size = step_gates(graph, weights, x)[layer - 1], _size(graph, weights, layer - 1)
    mean = np.stack([gates[labels == c].mean(axis=0) for c in np.unique(labels)])
    mixed, alive = ((mean > 0) & (mean < 1)).any(axis=0), gates.any(axis=0)
    if not size[alive].sum():
        raise InputError("net has no unit that is active on a sample")
    return float(size[mixed].sum() / size[alive].sum())


# -- networks and their gates ----------------------------------------------------------------

FOLLOW = ("trained", "swapped")
Moment = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class _Seen:
    """One run: weights at several times, and the network that was trained if it was here."""

    graph: Graph
    x: np.ndarray
    y: np.ndarray
    moments: Sequence[Moment]
    trained: ReluNetwork | None = None

    @property
    def depth(self) -> int:
        return len(self.graph.hidden)

    @cached_property
    def outputs(self) -> np.ndarray:
        """`(times, n, out)`"""
        return np.stack([_forward(self.graph, w, self.x) for w in self.moments])

    @property
    def loss(self) -> float:
        """Last loss, relative to that of a silent network."""
        return float(((self.outputs[-1] - self.y) ** 2).sum() / (self.y**2).sum())


def _networks(
    X: Any,
    Y: Any,
    net: Any,
    hidden: Any,
    runs: int,
    std: float,
    lr: float,
    steps: int,
    every: int,
    seed: int,
    keywords: dict[str, Any],
) -> tuple[list[_Seen], list[str]]:
    if net is not None and keywords:
        raise InputError(f"{next(iter(keywords))} is for training, and net is trained already")
    if isinstance(net, ReluNetwork):
        return _checked([_of(net.run(r)) for r in range(len(net.loss))] if net.many else [_of(net)])
    if X is None or Y is None:
        raise InputError("X and Y, the inputs and targets, are needed")
    x, y = checked_data(X, Y)
    if net is not None:
        moments = [own_network(w) for w in _times(net)]
        graph = moments[0][1]
        if any(g != graph for _, g in moments):
            raise InputError("net must have the same layers at all times")
        sizes = graph.nodes["x"], graph.nodes["y"]
        if sizes != (x.shape[1], y.shape[1]):
            raise InputError(
                f"X and Y must have the {sizes[0]} inputs and {sizes[1]} outputs of net, got "
                f"{x.shape[1]} and {y.shape[1]}"
            )
        return _checked([_Seen(graph, x, y, [w for w, _ in moments])])
    runs, steps, every = integer("runs", runs), integer("steps", steps), integer("every", every)
    if every > steps:
        raise InputError(f"every must be at most steps, {steps}; got {every}")
    seeds = [1000 * integer("seed", seed, least=0) + r for r in range(runs)]
    unit = number("lr", lr, above=0) * (1 if keywords.get("reduction") == "mean" else len(x))
    save = unit * np.union1d(np.arange(0, steps + 1, every), [steps])
    made = train(x, y, hidden, std, lr, steps, save, seeds, **keywords)
    return _checked([_of(made.run(r)) for r in range(runs)])


def checked_data(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = array("X", X, (None, None)), array("Y", Y, (None, None))
    if len(x) != len(y):
        raise InputError(f"Y must have as many rows as X, {len(x)}; got {len(y)}")
    if not x.any() or not y.any():
        raise InputError(f"X and Y must not be empty or zero everywhere, got shapes {x.shape} and {y.shape}")
    return x, y


def _of(net: ReluNetwork) -> _Seen:
    if not net.weights:
        raise InputError("net must have its weights saved: train with save_weights=True")
    moments = [net.at(i) for i in range(len(net.t))]
    return _Seen(net.task.graph, net.X, net.Y, moments, net)


def _times(net: Any) -> list[Any]:
    """The weights of a network at each time that it holds."""
    if isinstance(net, Mapping):
        series = {n: array(f"net[{n!r}]", w) for n, w in net.items()}
        if not any(w.ndim == 3 for w in series.values()):
            return [net]
        return [{n: w[t] for n, w in series.items()} for t in range(_length(series.values()))]
    if isinstance(net, Sequence) and not isinstance(net, str) and len(net):
        if all(isinstance(w, Mapping) or hasattr(w, "named_parameters") for w in net):
            return list(net)
        pairs = [
            w if isinstance(w, (tuple, list)) and len(w) == 2 and np.ndim(w[0]) == 3 else (w,) for w in net
        ]
        if all(np.ndim(p[0]) == 3 for p in pairs):
            flat = [[array(f"net[{k}]", a) for a in p if a is not None] for k, p in enumerate(pairs)]
            length = _length([a for p in flat for a in p])
            return [[p[0][t] if len(p) == 1 else (p[0][t], p[1][t]) for p in flat] for t in range(length)]
    return [net]


def _length(series: Any) -> int:
    lengths = {len(w) for w in series}
    if len(lengths) != 1 or not min(lengths):
        raise InputError(f"net must have its weights at the same times, got {sorted(lengths)} of them")
    return lengths.pop()


def _checked(seen: list[_Seen]) -> tuple[list[_Seen], list[str]]:
    """Networks with warnings about those that have not converged."""
    with np.errstate(all="ignore"):
        losses = np.array([one.loss for one in seen])
    here = seen[0].trained is not None
    if not np.isfinite(losses).all():
        raise InputError(
            f"run {np.flatnonzero(~np.isfinite(losses))[0]} diverged: try a smaller lr"
            if here
            else "net must have finite outputs"
        )
    if here and (losses > STARTED).any():
        r = int(losses.argmax())
        raise InputError(
            f"run {r} has not learned: its last loss is {losses[r]:.3g} of that of a silent network; "
            "try more steps, another lr or a larger std"
        )
    warnings = []
    if (losses > LEARNED).any():
        which = ", ".join(str(r) for r in np.flatnonzero(losses > LEARNED))
        cure = "more steps or another lr" if here else "a network that was trained longer on these X and Y"
        warnings.append(
            f"not converged: last loss {losses.max():.3g} of that of a silent network (run {which}); "
            f"these are the patterns so far, try {cure}"
        )
    return seen, warnings


def _size(graph: Graph, weights: Moment, layer: int) -> np.ndarray:
    """Product of the lengths of incoming and outgoing weights `(units,)`."""
    edges = list(graph.edges)
    return np.linalg.norm(weights[edges[layer]], axis=1) * np.linalg.norm(weights[edges[layer + 1]], axis=0)


def _distinct(seen: list[_Seen], layer: int, weighted: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Distinct patterns `(m, n)`, how much each counts `(m,)`, and the share of those left out."""
    n = len(seen[0].x)
    count: dict[bytes, float] = {}
    for one in seen:
        for w in one.moments:
            gates = step_gates(one.graph, w, one.x)[layer - 1].T
            size = np.sqrt(_size(one.graph, w, layer - 1))
            alive = gates.any(axis=1) & (size > 0)
            size = size[alive] if weighted else np.ones(alive.sum())
            for key, s in zip(np.packbits(gates[alive], axis=1), size, strict=True):
                count[key.tobytes()] = count.get(key.tobytes(), 0.0) + s
    if not count:
        raise InputError(f"no unit of layer {layer} is active on a sample: there is no pattern to find")
    weights = np.array(list(count.values()))
    order = np.argsort(-weights, kind="stable")[: max(1, MOST_NUMBERS // n)]
    keys = list(count)
    packed = np.stack([np.frombuffer(keys[i], np.uint8) for i in order])
    patterns = np.unpackbits(packed, axis=1)[:, :n].astype(float)
    left_out = 1 - weights[order].sum() / weights.sum() if len(order) < len(keys) else 0.0
    return patterns, weights[order] / weights[order].sum(), float(left_out)


def _cluster(patterns: np.ndarray, weights: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres `(k, n)` and shares `(k,)`, those open on most samples first."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    means: Any = KMeans  # its annotations are not those of its documentation
    with threadpool_limits(1):  # sums in the same order every time, and threads are slow at this size
        made = means(k, n_init=10, random_state=seed).fit(patterns, sample_weight=weights * len(weights))
    centres = made.cluster_centers_.clip(0.0, 1.0)
    shares = np.bincount(made.labels_, weights, minlength=k)
    order = sorted(range(k), key=lambda c: (-_open(centres[c]).sum(), tuple(-_open(centres[c])), -shares[c]))
    return centres[order], shares[order]


def _open(centres: np.ndarray) -> np.ndarray:
    return (centres > 0.5).astype(float)


def _repeats(centres: np.ndarray) -> bool:
    return len(np.unique(_open(centres), axis=0)) < len(centres)


# -- the elbow -------------------------------------------------------------------------------


def _choose(
    elbow: dict[int, float], found: dict[int, tuple[np.ndarray, np.ndarray]], follow: str, tolerance: float
) -> tuple[int, str]:
    good = {m: d for m, d in elbow.items() if not _repeats(found[m][0])}
    if follow == "trained":
        least = min(good.values())
        most = least + max(CLOSE, tolerance * (elbow[1] - least))
        rule = f"the fewest clusters with {1 - tolerance:.0%} of the best gain over one"
        return min(m for m, d in good.items() if d <= most), f"trained beside the network: {rule}"
    first, last = min(elbow), max(elbow)
    slope = (elbow[last] - elbow[first]) / max(1, last - first)
    below = {m: elbow[first] + slope * (m - first) - d for m, d in good.items()}
    chosen = max(below, key=lambda m: (below[m] + 1e-12 * (last - m), -m))
    rule = "where the distance lies farthest below the line from end to end"
    return chosen, f"gates swapped for patterns: {rule}"


def _rms(values: Sequence[Any]) -> float:
    return float(np.sqrt(np.mean([np.mean(np.square(v)) for v in values])))


def _swapped(one: _Seen, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance of outputs at each time, with each unit's gates swapped for the nearest pattern."""
    found = []
    for w, outputs in zip(one.moments, one.outputs, strict=True):
        own = step_gates(one.graph, w, one.x)[layer]
        other = patterns[_nearest(own.T, patterns)].T * own.any(axis=0)
        apart = _forward(one.graph, w, one.x, {layer: other}) - outputs
        found.append(np.sqrt((apart**2).sum() / (one.y**2).sum()))
    return np.array(found)


def _forward(
    graph: Graph, weights: Moment, x: np.ndarray, gates: Mapping[int, np.ndarray] | None = None
) -> Any:
    h = x
    for k, (e, (_, node)) in enumerate(graph.edges.items()):
        h = h @ weights[e].T
        if node in graph.biases:
            h = h + weights[node]
        if node in graph.hidden:
            h = h * gates[k] if gates and k in gates else np.maximum(h, 0)
    return h


def _nearest(gates: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """The pattern on which each row of 0 and 1 differs for the fewest samples."""
    g = np.asarray(gates, float)
    apart = g.sum(axis=1)[:, None] + patterns.sum(axis=1)[None] - 2 * g @ patterns.T
    return apart.argmin(axis=1)


def _trained(one: _Seen, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance of outputs at each time from a linear network with constant gates, trained as this one was.

    Units with the same gates are a linear pathway. Rotating them changes nothing, so no pathway needs more
    units than it has inputs and outputs.
    """
    net = one.trained
    assert net is not None
    x, y, (first, second) = one.x, one.y, one.graph.edges
    start, outputs = one.moments[0], one.outputs
    # Outputs outside the span of the targets stay what they are at the start: nothing, if that is small.
    _, s, vt = np.linalg.svd(y, full_matrices=False)
    q = vt[s > 1e-9 * s[0]]
    if ((outputs - outputs @ q.T @ q) ** 2).sum(axis=(1, 2)).max() > 1e-8 * (y**2).sum():
        q = np.eye(y.shape[1])
    bias = one.graph.biases
    inward = np.column_stack([start[first], *([start["h1"]] if bias else [])])
    outward = q @ start[second]
    own = step_gates(one.graph, one.moments[-1], x)[layer].T
    member = np.where(own.any(axis=1), _nearest(own, patterns), -1)
    size = min(inward.shape[1] + len(q), len(own))
    w1, w2 = np.zeros((len(patterns), size, inward.shape[1])), np.zeros((len(patterns), len(q), size))
    for c in range(len(patterns)):
        both = np.concatenate([inward[member == c], outward[:, member == c].T], axis=1)
        r = np.linalg.qr(both)[1] if len(both) > size else both
        w1[c, : len(r)], w2[c, :, : len(r)] = r[:, : inward.shape[1]], r[:, inward.shape[1] :].T
    w1, w2 = w1.reshape(-1, inward.shape[1]), np.concatenate(list(w2), axis=1)
    chain = relu_chain([x.shape[1], len(w1), len(q)], bool(bias))
    graph = Graph(chain.nodes, chain.edges, biases=chain.biases)
    task = Task(graph, x, y @ q.T, {"h1": np.repeat(patterns, size, axis=0).T})
    weights = {first: w1[:, : x.shape[1]], second: w2}
    if bias:
        weights |= {"h1": w1[:, -1], "y": q @ start["y"]}
    path = net.beside(task, weights)
    apart = predict(task, path.weights)["y"] - outputs[: len(path.t)] @ q.T
    return np.sqrt((apart**2).sum(axis=(1, 2)) / (y**2).sum())


def _labels(context: Any, n: int) -> np.ndarray:
    labels = np.asarray(list(context))
    if labels.shape != (n,):
        raise InputError(f"context must have one label per sample, shape ({n},); got {labels.shape}")
    return labels
