"""Which gated linear network is this ReLU network? A few gating patterns from its training.

make_haste_slowly Algorithm 1: gates of the hidden units over training and runs, clustered by k-means. Here
units count by the size of their weights, and the number of clusters is chosen by how well the network with
these constant gates follows the ReLU network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.dynamics import Status, Trajectory
from neuralrace.dynamics.methods import check_steps
from neuralrace.errors import InputError, choice, flag, integer, listed, need_extra, number
from neuralrace.graph import Graph
from neuralrace.interrupts import heard
from neuralrace.measure import unit_sizes
from neuralrace.network import activity, predict
from neuralrace.relu.gates import as_relu_network, network_at
from neuralrace.relu.patterns import context_labels, nearest_pattern, pattern_text
from neuralrace.relu.training import checked_data, default_rate, relu_chain, train, train_like, unit_gates
from neuralrace.task import Task

FOLLOW = ("trained", "swapped")
CONVERGED = 0.01  # share of the loss of a silent network that a run which has converged may leave
MAX_RUNS, MAX_TIMES = 10_000, 100_000
STARTED = 0.9  # a run that leaves more than this has learned nothing
MAX_NUMBERS = 20_000_000  # in the patterns that are clustered
CLOSE = 0.005  # distances, relative to the targets, that count as equal
WORSE_IN_A_ROW = 2  # numbers of clusters without a gain after which no more are tried


@dataclass(frozen=True, eq=False)
class Discovery:
    """Gating patterns of a ReLU network, k of them, those open on most samples first.

    Attributes
    ----------
    patterns : ndarray, shape (k, n)
        0 and 1: where the centres are above one half.
    centres : ndarray, shape (k, n)
        Mean gates of each cluster, weighted by the size of the units.
    shares : ndarray, shape (k,)
        Weight in each cluster.
    elbow : dict
        Number of clusters -> distance between the outputs of the network and of the gated one, root mean
        square over saved times and runs, relative to the targets.
    rule : str
        How the distance was measured and k chosen.
    loss : ndarray, shape (runs,)
        Last loss relative to that of a silent network.
    candidates : dict
        Number of clusters -> centres, for all that were tried.
    layer : int
        The hidden layer; 1 is the first.
    moments : int
        Number of times at which gates were taken.
    warnings : tuple of str
        Reasons for caution, such as runs that have not converged.

    Examples
    --------
    >>> x, y = np.eye(4), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> result = discover(x, y, [100], k=2, std=1e-3, lr=0.1, steps=200, every=10)
    >>> result.k, result.by_context([0, 0, 1, 1])
    (2, ['10', '01'])
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
        """Number of patterns."""
        return len(self.patterns)

    @property
    def ambiguity(self) -> np.ndarray:
        """Twice the mean distance of each centre from its pattern, `(k,)`: 0 if all gates are 0 or 1."""
        return 2 * np.abs(self.centres - self.patterns).mean(axis=1)

    def by_context(self, context: ArrayLike) -> list[str]:
        """Each pattern with one digit per context.

        Parameters
        ----------
        context : array, shape (n,)
            Label of each sample.

        Returns
        -------
        list of str
            Digits in the order of the labels; ? where a pattern is mixed.
        """
        labels = context_labels(context, self.patterns.shape[1])
        mean = np.stack([self.patterns[:, labels == c].mean(axis=1) for c in np.unique(labels)], axis=1)
        return ["".join("0" if m == 0 else "1" if m == 1 else "?" for m in row) for row in mean]

    def table(self) -> str:
        """Patterns, the distance for each number of clusters, and warnings, as text."""
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
        """Everything as plain lists and numbers, for JSON."""
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


@heard()
def discover(
    X: ArrayLike | None = None,
    Y: ArrayLike | None = None,
    hidden: Sequence[int] = (700,),
    k: int | None = None,
    runs: int = 3,
    std: float | None = None,
    lr: float | None = None,
    steps: int = 8000,
    every: int = 100,
    seed: int = 0,
    *,
    net: Any = None,
    layer: int = 1,
    max_clusters: int = 8,
    tolerance: float = 0.05,
    follow: str | None = None,
    weighted: bool = True,
    progress: bool = False,
    **keywords: Any,
) -> Discovery:
    """The few gating patterns of ReLU networks on some data.

    Trains `runs` networks and takes the gates of their units every `every` steps, or takes those of `net`.
    Patterns of a layer that are not silent are clustered by k-means.

    Parameters
    ----------
    X : array, shape (n, in)
        Inputs; known where `net` is what `train` returned.
    Y : array, shape (n, out) or (n,)
        Targets, likewise.
    hidden, std, lr, steps
        As in `train`.
    k : int, optional
        Number of patterns; chosen by default.
    runs : int
        Networks to train. Those of another `seed` share no initial weights.
    every : int
        Steps from one look at the gates to the next.
    seed : int
        Of initial weights and clustering, below 2^32.
    net : Trajectory, or weights of your own, optional
        What `train` returned; or matrices (out, in) or (times, out, in) in layer order in a list or dict;
        pairs of matrix and bias; a torch `Sequential` of `Linear` and `ReLU` layers; or a list of such dicts
        or modules, one per time.
    layer : int
        The hidden layer; 1 is the first.
    max_clusters : int
        Largest number of patterns that is tried.
    tolerance : float
        Share of the best gain that may be missed, with ``follow="trained"``.
    follow : {"trained", "swapped"}, optional
        How the distance to a network with constant gates is measured. "trained": that network is trained
        beside each run from the run's own initial weights, each unit with the pattern nearest to its last
        gates. k is the smallest that gains, over one cluster, all but `tolerance` of what the best k does (or
        comes within .005 of it); larger k are tried until two in a row are no better. "swapped": the weights
        are those of the network at each time and only the gates of the layer are swapped for the nearest
        pattern, which needs no training; this distance tends to fall with every k, and k is where it lies
        farthest below the line from the first to the last. By default "trained" for networks with one hidden
        layer that `train` trained, else "swapped".
    weighted : bool
        Whether a unit counts by the size of its weights at that time (the geometric mean of the lengths of
        incoming and outgoing ones), so that those that have not grown count little; or all alike.
    progress : bool
        Show progress bars on stderr.
    **keywords
        Those of `train`.

    Returns
    -------
    Discovery
        Clusterings with two equal patterns are never chosen.

    Examples
    --------
    >>> x, y = np.eye(4), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> discover(x, y, [100], std=1e-3, lr=0.1, steps=200, every=10).patterns.tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    need_extra("sklearn", "sklearn")
    tolerance, max_clusters = number("tolerance", tolerance, least=0), integer("max_clusters", max_clusters)
    k = None if k is None else integer("k", k)
    if {"x", "y"} & keywords.keys():
        raise InputError(f"inputs are X and targets are Y, got {listed(keywords)}")
    layer, seed = integer("layer", layer), integer("seed", seed, 0, 2**32 - 1)
    follow = None if follow is None else choice("follow", follow, FOLLOW)
    if net is None:
        keywords |= {"progress": flag("progress", progress)}
        networks = train_networks(X, Y, hidden, runs, std, lr, steps, every, seed, **keywords)
    elif keywords:
        raise InputError(f"{next(iter(keywords))} is for training, and net is trained already")
    else:
        networks = given_networks(X, Y, net)
    warnings = convergence_warnings(networks)
    follow = _follow(networks[0], layer, follow)
    patterns, weights, left_out = distinct_patterns(networks, layer, flag("weighted", weighted))
    if left_out:
        warnings.append(f"{left_out:.1%} of the weight is in rare patterns, left out for their number")
    if k is not None and k > len(patterns):
        raise InputError(f"k must be at most the number of distinct patterns, {len(patterns)}; got {k}")
    counts = range(1, min(max_clusters, len(patterns)) + 1) if k is None else [k]
    clusters = lambda m: cluster(patterns, weights, m, seed)  # noqa: E731
    elbow, tried = _elbow(networks, counts, clusters, follow, layer, flag("progress", progress))
    centres = {m: c for m, (c, _) in tried.items()}
    rule = "number of clusters given"
    if k is None:
        k, rule = choose_count(elbow, centres, follow, tolerance)
    if has_equal_patterns(centres[k]):
        warnings.append("two clusters have the same pattern: fewer clusters say as much")
    losses = np.array([relative_loss(one) for one in networks])
    return Discovery(
        open_patterns(centres[k]), centres[k], tried[k][1], elbow, rule, losses, centres, layer,
        len(networks[0].t), tuple(warnings),
    )  # fmt: skip


def mixed_share(
    net: Any, context: ArrayLike, i: int = -1, layer: int = 1, X: ArrayLike | None = None
) -> float:
    """The share of a layer's weight in units that are open for some samples of a context and not for others.

    Lemma 4.1 of make_haste_slowly has it zero. Silent units do not count; weight is the product of the
    lengths of incoming and outgoing weights.

    Parameters
    ----------
    net : Trajectory, or weights of your own
        As in `as_gdln`.
    context : array, shape (n,)
        Label of each sample.
    i : int
        Index of the saved time, of what `train` returned; -1 is the last.
    layer : int
        The hidden layer; 1 is the first.
    X : array, shape (n, in), optional
        Inputs; needed with weights of your own.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> mixed_share([[[3.0, -4.0], [4.0, 3.0]], [[1.0, 1.0]]], [0, 0], X=[[1.0, 0.0], [0.0, 1.0]])
    0.5
    """
    task, weights = network_at(net, i, X, None, need_targets=False)
    graph = task.graph
    labels = context_labels(context, len(task.arrays[0]))
    _check_layer(integer("layer", layer), len(graph.hidden))
    gates, size = unit_gates(task, weights, layer), unit_size(graph, weights, layer)
    mean = np.stack([gates[labels == c].mean(axis=0) for c in np.unique(labels)])
    mixed, alive = ((mean > 0) & (mean < 1)).any(axis=0), gates.any(axis=0)
    if not size[alive].sum():
        raise InputError("net has no unit that is active on a sample")
    return float(size[mixed].sum() / size[alive].sum())


def _check_layer(layer: int, depth: int) -> None:
    if layer > depth:
        raise InputError(f"layer must be at most the number of ReLU layers, {depth}; got {layer}")


def _follow(net: Trajectory, layer: int, follow: str | None) -> str:
    """How the distance is measured, where the networks allow it."""
    depth = len(net.task.graph.hidden)
    _check_layer(layer, depth)
    possible = trained_here(net) and depth == 1
    if follow == "trained" and not possible:
        raise InputError("follow='trained' needs networks with one hidden layer, trained by nr.relu.train")
    return follow or ("trained" if possible else "swapped")


def _elbow(
    networks: Sequence[Trajectory],
    counts: Sequence[int],
    clusters: Any,
    follow: str,
    layer: int,
    progress: bool,
) -> tuple[dict[int, float], dict[int, Any]]:
    """For each number of clusters the distance, and centres and shares; until more are no better."""
    from tqdm import tqdm

    distance = trained_distance if follow == "trained" else swapped_distance
    outputs = [all_outputs(net) for net in networks]
    elbow, tried, worse = {}, {}, 0
    with tqdm(total=len(counts) * len(networks), desc="clusters", disable=not progress) as bar:
        for m in counts:
            tried[m] = clusters(m)
            distances = []
            for net, own in zip(networks, outputs, strict=True):
                distances.append(distance(net, own, open_patterns(tried[m][0]), layer))
                bar.update()
            apart = root_mean_square(distances)
            worse = worse + 1 if elbow and min(elbow.values()) <= apart else 0
            elbow[m] = apart
            if follow == "trained" and worse == WORSE_IN_A_ROW:
                break
    return elbow, tried


def given_networks(X: Any, Y: Any, net: Any) -> list[Trajectory]:
    """Networks that are trained already: what `train` returned, or weights of the user's own."""
    networks = as_relu_network(net, X, Y)
    _check_not_zero(*networks.task.arrays)
    return list(networks) if networks.many else [networks]


def train_networks(
    X: Any,
    Y: Any,
    hidden: Any,
    runs: Any,
    std: Any,
    lr: Any,
    steps: Any,
    every: Any,
    seed: int,
    **keywords: Any,
) -> list[Trajectory]:
    """Networks trained from different seeds, saved every `every` steps."""
    if X is None or Y is None:
        raise InputError("X and Y, the inputs and targets, are needed")
    x, y = checked_data(X, Y)
    _check_not_zero(x, y)
    runs, steps = integer("runs", runs, most=MAX_RUNS), check_steps("steps", steps)
    every = integer("every", every)
    if every > steps:
        raise InputError(f"every must be at most steps, {steps}; got {every}")
    if steps // every > MAX_TIMES:
        raise InputError(f"every must be at least {steps // MAX_TIMES + 1} for {steps} steps, got {every}")
    if "save" in keywords:
        raise InputError("save must not be given: `every` says at which steps gates are taken")
    seeds = [1000 * seed + r for r in range(runs)]
    objective = keywords.get("objective", "sum")
    lr = default_rate(x, y, objective) if lr is None else number("lr", lr, above=0)
    unit = lr * (1 if objective == "mean" else len(x))
    save = unit * np.union1d(np.arange(0, steps + 1, every), [steps])
    return list(train(x, y, hidden, std, lr, steps, save, seeds, **keywords))


def relative_loss(net: Trajectory) -> float:
    """Last loss, relative to that of a silent network."""
    silent = 0.5 * (net.task.arrays[1] ** 2).sum() / len(net.task.arrays[1])
    return float(net.loss[-1] / net.loss_scale / silent)


def trained_here(net: Trajectory) -> bool:
    """Whether `train` made the network, so that its training can be repeated."""
    return "process" in net.settings


def convergence_warnings(networks: Sequence[Trajectory]) -> list[str]:
    """Warnings about networks that have not converged; refuses those that have learned nothing."""
    here = trained_here(networks[0])
    for r, one in enumerate(networks):
        if one.status is Status.DIVERGED:
            raise InputError(f"run {r} {one.outcome}")
    losses = np.array([relative_loss(one) for one in networks])
    if not np.isfinite(losses).all():
        raise InputError("net must have finite outputs")
    if here and (losses > STARTED).any():
        r = int(losses.argmax())
        raise InputError(
            f"run {r} has not learned: its last loss is {losses[r]:.3g} of that of a silent network; "
            "try more steps, another lr or a larger std"
        )
    if (losses <= CONVERGED).all():
        return []
    which = ", ".join(str(r) for r in np.flatnonzero(losses > CONVERGED))
    cure = "more steps or another lr" if here else "a network that was trained longer on these X and Y"
    return [
        f"not converged: last loss {losses.max():.3g} of that of a silent network (run {which}); "
        f"these are the patterns so far, try {cure}"
    ]


def _check_not_zero(x: np.ndarray, y: np.ndarray) -> None:
    if not x.any() or not y.any():
        raise InputError("X and Y must not be zero everywhere")


# -- clusters ----------------------------------------------------------------------------------------


def unit_size(graph: Graph, weights: Mapping[str, np.ndarray], layer: int) -> np.ndarray:
    """Size of each unit of a layer (1 is the first), `(units,)`."""
    before, after = list(graph.edges)[layer - 1 : layer + 1]
    return unit_sizes(weights[before], weights[after])


def distinct_patterns(
    networks: Sequence[Trajectory], layer: int, weighted: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Distinct patterns `(m, n)`, how much each counts `(m,)`, and the share of those left out."""
    n = len(networks[0].task.arrays[0])
    count: dict[bytes, float] = {}
    for one in networks:
        for i in range(len(one.t)):
            gates = unit_gates(one.task, one.at(i), layer).T
            size = np.sqrt(unit_size(one.task.graph, one.at(i), layer))
            alive = gates.any(axis=1) & (size > 0)
            size = size[alive] if weighted else np.ones(alive.sum())
            for key, s in zip(np.packbits(gates[alive], axis=1), size, strict=True):
                count[key.tobytes()] = count.get(key.tobytes(), 0.0) + s
    if not count:
        raise InputError(f"no unit of layer {layer} is active on a sample: there is no pattern to find")
    weights = np.array(list(count.values()))
    order = np.argsort(-weights, kind="stable")[: max(1, MAX_NUMBERS // n)]
    keys = list(count)
    packed = np.stack([np.frombuffer(keys[i], np.uint8) for i in order])
    patterns = np.unpackbits(packed, axis=1)[:, :n].astype(float)
    left_out = 1 - weights[order].sum() / weights.sum() if len(order) < len(keys) else 0.0
    return patterns, weights[order] / weights[order].sum(), float(left_out)


def cluster(patterns: np.ndarray, weights: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres `(k, n)` and shares `(k,)`, those open on most samples first."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    means: Any = KMeans  # its annotations are not those of its documentation
    with threadpool_limits(1):  # sums in the same order every time, and threads are slow at this size
        fit = means(k, n_init=10, random_state=seed).fit(patterns, sample_weight=weights * len(weights))
    centres = fit.cluster_centers_.clip(0.0, 1.0)
    shares = np.bincount(fit.labels_, weights, minlength=k)
    rows = open_patterns(centres)
    order = sorted(range(k), key=lambda c: (-rows[c].sum(), tuple(-rows[c]), -shares[c]))
    return centres[order], shares[order]


def open_patterns(centres: np.ndarray) -> np.ndarray:
    """1 where mean gates are above one half, else 0."""
    return (centres > 0.5).astype(float)


def has_equal_patterns(centres: np.ndarray) -> bool:
    """Whether two clusters have the same pattern."""
    return len(np.unique(open_patterns(centres), axis=0)) < len(centres)


def choose_count(
    elbow: Mapping[int, float], centres: Mapping[int, np.ndarray], follow: str, tolerance: float
) -> tuple[int, str]:
    """The number of clusters, and the rule by which it was chosen."""
    good = {m: d for m, d in elbow.items() if not has_equal_patterns(centres[m])}
    if follow == "trained":
        least = min(good.values())
        enough = least + max(CLOSE, tolerance * (elbow[1] - least))
        rule = f"the fewest clusters with {1 - tolerance:.0%} of the best gain over one"
        return min(m for m, d in good.items() if d <= enough), f"trained beside the network: {rule}"
    first, last = min(elbow), max(elbow)
    slope = (elbow[last] - elbow[first]) / max(1, last - first)
    below = {m: elbow[first] + slope * (m - first) - d for m, d in good.items()}
    chosen = max(below, key=lambda m: (below[m] + 1e-12 * (last - m), -m))
    rule = "where the distance lies farthest below the line from end to end"
    return chosen, f"gates swapped for patterns: {rule}"


def root_mean_square(values: Sequence[Any]) -> float:
    """Root of the mean over runs of the mean square of each."""
    return float(np.sqrt(np.mean([np.mean(np.square(v)) for v in values])))


def all_outputs(net: Trajectory) -> np.ndarray:
    """Outputs at all saved times, `(save, n, out)`."""
    return predict(net.task, net.weights)["y"]


def swapped_distance(net: Trajectory, outputs: np.ndarray, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance from the outputs at each time, with each unit's gates swapped for the nearest pattern."""
    x, y = net.task.arrays
    g = net.task.graph
    node = g.hidden[layer - 1]
    others = {h: a for h, a in g.activations.items() if h != node}
    swapped = Task(Graph(g.nodes, g.edges, others, g.biases), x, y)
    distances = []
    for i, here in enumerate(outputs):
        own = unit_gates(net.task, net.at(i), layer)
        gates = patterns[nearest_pattern(own.T, patterns)].T * own.any(axis=0)
        apart = activity(swapped, net.at(i), "y", inputs=x, gates={node: gates}) - here
        distances.append(np.sqrt((apart**2).sum() / (y**2).sum()))
    return np.array(distances)


def trained_distance(net: Trajectory, outputs: np.ndarray, patterns: np.ndarray, layer: int) -> np.ndarray:
    """Distance from the outputs of a linear network with constant gates that is trained as `net` was."""
    y = net.task.arrays[1]
    span = _span_of_outputs(y, outputs)
    task, weights = _pathways(net, patterns, layer, span)
    path = train_like(net, task, weights)
    apart = predict(task, path.weights)["y"] - outputs[: len(path.t)] @ span.T
    return np.sqrt((apart**2).sum(axis=(1, 2)) / (y**2).sum())


def _span_of_outputs(y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Directions `(k, out)` in which outputs move.

    Outside the span of the targets they stay what they are at the start: nothing, if that is small.
    """
    _, s, vt = np.linalg.svd(y, full_matrices=False)
    span = vt[s > 1e-9 * s[0]]
    if ((outputs - outputs @ span.T @ span) ** 2).sum(axis=(1, 2)).max() > 1e-8 * (y**2).sum():
        return np.eye(y.shape[1])
    return span


def _pathways(
    net: Trajectory, patterns: np.ndarray, layer: int, span: np.ndarray
) -> tuple[Task, dict[str, np.ndarray]]:
    """The network with each unit at the pattern nearest to its last gates, and its initial weights.

    Units with the same gates are a linear pathway. Rotating them changes nothing, so no pathway needs more
    units than it has inputs and outputs.
    """
    (x, y), start = net.task.arrays, net.at(0)
    first, second = net.task.graph.edges
    bias = net.task.graph.biases
    inward = np.column_stack([start[first], *([start["h1"]] if bias else [])])
    outward = span @ start[second]
    own = unit_gates(net.task, net.at(-1), layer).T
    member = np.where(own.any(axis=1), nearest_pattern(own, patterns), -1)
    size = min(inward.shape[1] + len(span), len(own))
    w1, w2 = np.zeros((len(patterns), size, inward.shape[1])), np.zeros((len(patterns), len(span), size))
    for c in range(len(patterns)):
        both = np.concatenate([inward[member == c], outward[:, member == c].T], axis=1)
        r = np.linalg.qr(both)[1] if len(both) > size else both
        w1[c, : len(r)], w2[c, :, : len(r)] = r[:, : inward.shape[1]], r[:, inward.shape[1] :].T
    w1, w2 = w1.reshape(-1, inward.shape[1]), np.concatenate(list(w2), axis=1)
    chain = relu_chain([x.shape[1], len(w1), len(span)], bool(bias))
    graph = Graph(chain.nodes, chain.edges, biases=chain.biases)
    task = Task(graph, x, y @ span.T, {"h1": np.repeat(patterns, size, axis=0).T})
    weights = {first: w1[:, : x.shape[1]], second: w2}
    if bias:
        weights |= {"h1": w1[:, -1], "y": span @ start["y"]}
    return task, weights
