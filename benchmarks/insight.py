"""Networks whose truth is known: does `nr.watch` say what they are?

    python -m benchmarks.insight [--networks 100] [--first 0] [--seeds 10]

Deep linear networks of random depth, width, data and initial scale, watched along their exact flow: half
times of the modes against the exact ones, and the regime against the change of the whole tangent kernel.
Gated networks: are the pathways found as built? Parallel
pathways: what each contributes to each mode. Networks of many domains with and without a shared pathway: is
sharing told apart, and does what is said to generalise do so on pairs of domains that were never trained?
"""

import argparse
from itertools import product

import jax.numpy as jnp
import numpy as np
import torch

import neuralrace as nr
from neuralrace.apps.insight.branches import SHARED
from neuralrace.apps.insight.regime import verdict_of

EDGE = 0.15  # networks this near to the edge of a regime, as a share, are counted apart


def network(seed: int) -> tuple[float, str, str, bool]:
    """Largest error of a half time, the verdict, the true one, and whether it is clear."""
    rng = np.random.default_rng(seed)
    depth, width = int(rng.integers(2, 5)), int(rng.integers(8, 40))
    n, k = int(rng.integers(8, 14)), int(rng.integers(3, 6))
    x = np.sqrt(n) * np.linalg.qr(rng.normal(size=(n, k)))[0]  # white inputs
    s = np.sort(rng.uniform(0.5, 3.0, k))[::-1]
    y = x @ np.diag(s)
    task = nr.Task(nr.Graph.chain([k, *(depth - 1) * [width], k]), x, y)
    gain = float(np.exp(rng.uniform(np.log(0.05), np.log(4.0))))
    start = nr.init.xavier(task.graph, gain=gain, seed=seed)
    run = nr.flow(task, start, t1=200.0 / s[-1], stop_loss=1e-4 * nr.loss(task, start))
    weights = list(task.graph.edges)

    def model(params, x):
        h = x
        for w in params[:-1]:
            h = h @ w.T
        return h @ params[-1].T, {"last hidden": h}

    seen = nr.watch(model, x, y)
    for i, t in enumerate(run.t):
        seen.look(t, [run.weights[e][i] for e in weights])
    ds = seen.modes().data
    maps = np.diagonal(nr.end_to_end(task.graph, run), axis1=-2, axis2=-1) / s
    truth = nr.half_time(run.t, maps.T, axis=-1)
    known = np.isfinite(ds.half_time.values)
    off = float(np.abs(ds.half_time.values[known] / truth[known] - 1).max(initial=0.0))
    kernels = np.stack([nr.tangent_kernel(task, {e: w[i] for e, w in run.weights.items()}) for i in (0, -1)])
    change = float(nr.measure.kernel_change(kernels)[-1])
    clear = min(abs(np.log(change / 0.2)), abs(np.log(change))) > EDGE
    return off, seen.regime().verdict, verdict_of(change), clear


def random_gates(rng, pathways, contexts):
    """Different patterns over contexts, no pathway always open; each context has an open one."""
    while True:
        gates = rng.random((pathways, contexts)) < 0.5
        used = gates.any(axis=0).all() and gates.any(axis=1).all() and not gates.all(axis=1).any()
        if used and len(np.unique(gates, axis=0)) == pathways:
            return gates


def as_built(ds, layer, built, owner):
    """Whether the patterns found are those built, and the units of each those of one pathway."""
    found, member = ds[f"patterns:{layer}"].values, ds[f"membership:{layer}"].values
    patterns = {tuple(p) for p in found} == {tuple(p) for p in built}
    return patterns and all(
        (found[m] == built[o]).all() for m, o in zip(member, owner, strict=True) if m >= 0
    )


def gated_network(seed):
    """A gated linear network with random gates of contexts, learned by flow: found as built?"""
    rng = np.random.default_rng(seed)
    pathways, contexts, size, width = int(rng.integers(2, 5)), 6, 4, 12
    gates = random_gates(rng, pathways, contexts)
    x, context = rng.normal(size=(contexts * 8, size)), np.repeat(np.arange(contexts), 8)
    maps = rng.normal(size=(pathways, 3, size))
    y = np.einsum("pn,pos,ns->no", gates[:, context].astype(float), maps, x)
    graph = nr.Graph.pathways(size, 3, pathways * [[width]])
    hidden = {f"p{p}h1": gates[p, context].astype(float) for p in range(pathways)}
    task = nr.Task(graph, x, y, gates=hidden)
    start = nr.init.gaussian(graph, 0.05, seed=seed)
    run = nr.flow(task, start, t1=30.0, save=60)

    def model(params, both):
        opened = both[:, size:] @ gates.T
        h = [opened[:, [p]] * (both[:, :size] @ params[f"x->p{p}h1"].T) for p in range(pathways)]
        out = sum(v @ params[f"p{p}h1->y"].T for p, v in enumerate(h))
        return out, {"hidden": jnp.hstack(h)}

    both = np.hstack([x, np.eye(contexts)[context]])
    seen = nr.watch(model, both, y)
    for k, t in enumerate(run.t):
        seen.look(t, {e: w[k] for e, w in run.weights.items()})
    order = np.lexsort(y.T)
    return as_built(
        seen.pathways().data, "hidden", gates[:, context][:, order], np.repeat(np.arange(pathways), width)
    )


def relu_network(seed):
    """A ReLU module whose units are opened and closed by context, trained by Adam: found as built?"""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    pathways, contexts, size, width = int(rng.integers(2, 5)), 6, 4, 12
    gates, owner = random_gates(rng, pathways, contexts), np.repeat(np.arange(pathways), width)
    x, context = rng.normal(size=(contexts * 12, size)), np.repeat(np.arange(contexts), 12)
    y = np.einsum("pn,pos,ns->no", 1.0 * gates[:, context], rng.normal(size=(pathways, 3, size)), x)
    both = np.hstack([x, np.eye(contexts)[context]]).astype("float32")
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(size + contexts, pathways * width, bias=False), nn.ReLU(), nn.Linear(pathways * width, 3)
    )
    with torch.no_grad():
        model[0].weight *= 0.3
        model[0].weight[:, size:] = torch.tensor(np.where(gates[owner], 8.0, -8.0))
    seen = nr.watch(model, both, y)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(600):
        seen(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(torch.tensor(both)), torch.tensor(y, dtype=torch.float32)).backward()
        optimizer.step()
    seen(600)
    return as_built(seen.pathways().data, "1", gates[:, context][:, np.lexsort(y.T)], owner)


def parallel_pathways(seed):
    """Largest error of the contribution of a pathway to a mode, in pathways of different depth."""
    rng = np.random.default_rng(seed)
    n, k = 12, 4
    x = np.sqrt(n) * np.linalg.qr(rng.normal(size=(n, k)))[0]
    s = np.sort(rng.uniform(0.5, 3.0, k))[::-1]
    graph = nr.Graph.pathways(k, k, [[10], [10], [10, 10]])
    task = nr.Task(graph, x, x @ np.diag(s))
    run = nr.flow(task, nr.init.xavier(graph, gain=float(rng.uniform(0.1, 0.6)), seed=seed), t1=20.0, save=40)
    parts = {f"pathway {p}": [e for e in graph.edges if f"p{p}h" in e] for p in range(3)}

    def model(params, x):
        one = [x @ params[f"x->p{p}h1"].T for p in range(3)]
        last = [one[0] @ params["p0h1->y"].T, one[1] @ params["p1h1->y"].T]
        return sum(last) + one[2] @ params["p2h1->p2h2"].T @ params["p2h2->y"].T

    seen = nr.watch(model, x, x @ np.diag(s), branches=parts)
    for i, t in enumerate(run.t):
        seen.look(t, {e: w[i] for e, w in run.weights.items()})
    ds = seen.branches().data
    maps = nr.measure.pathway_maps(graph, {e: w[-1] for e, w in run.weights.items()})
    truth = np.stack([np.diag(m) / s for m in maps.values()])
    return float(np.abs(ds.contribution.values - truth).max())


def domain_network(seed, group, std):
    """What a network of 4 domains shares: transfer that is found, R^2 on pairs that were never trained."""
    domains, items, width = 4, 4, 16
    trained = nr.tasks.circulant(domains, 2, seed=seed)
    features = np.linalg.qr(np.random.default_rng(seed).normal(size=(items, items)))[0]
    targets = nr.tasks.hierarchy(3).arrays[1]
    task = nr.tasks.sharing(
        domains, group, items, hidden=[width], seed=seed, inputs=features, targets=targets, trained=trained
    )
    groups = domains // group
    run = nr.flow(task, nr.init.gaussian(task.graph, std, seed=seed), t1=1500.0, save=60)

    def show(pairs):
        rows = [(i, j, item) for i, j in pairs for item in range(items)]
        x = np.stack(
            [
                np.concatenate([np.kron(np.eye(domains)[i], features[a]), np.eye(domains)[j]])
                for i, j, a in rows
            ]
        )
        return rows, x, np.stack([targets[a] for *_, a in rows])

    def model(params, x):
        """Inputs of all domains, and which output is asked for."""
        asked, blocks = x[:, domains * items :], x[:, : domains * items].reshape(len(x), domains, items)
        source = jnp.abs(blocks).sum(axis=2) > 0
        hidden, out = [], 0.0
        for a, b in product(range(groups), repeat=2):
            ins, outs = (range(g * group, (g + 1) * group) for g in (a, b))
            opened = (
                source[:, ins[0] : ins[-1] + 1].any(axis=1)
                & (asked[:, outs[0] : outs[-1] + 1] > 0).any(axis=1)
            )[:, None]
            h = opened * sum(blocks[:, i] @ params[f"x{i}->g{a}.{b}h1"].T for i in ins)
            out = out + sum(asked[:, [j]] * (h @ params[f"g{a}.{b}h1->y{j}"].T) for j in outs)
            hidden.append(h)
        return out, {"hidden": jnp.hstack(hidden)}

    rows, x, y = show([(i, j) for i, j in np.argwhere(trained)])
    seen = nr.watch(model, x, y, domains=[i for i, *_ in rows], items=[a for *_, a in rows])
    for k, t in enumerate(run.t):
        seen.look(t, {e: w[k] for e, w in run.weights.items()})
    transfer = seen.branches().data.transfer.values[-1]
    _, x, y = show([(i, j) for i, j in np.argwhere(~trained)])
    guess = model({e: w[-1] for e, w in run.weights.items()}, x)[0]
    general = 1 - ((guess - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
    return float(transfer[~np.eye(domains, dtype=bool)].mean()), float(general)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first of the networks")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    if given.seeds:
        pathways_and_domains(range(given.seeds))
    if given.networks:
        linear_networks(range(given.first, given.first + given.networks))


def pathways_and_domains(seeds) -> None:
    for name, recovered in (
        ("gated linear networks", gated_network),
        ("ReLU modules with built gates", relu_network),
    ):
        print(
            f"pathways of {name}: found in {sum(recovered(k) for k in seeds)} of {len(seeds)} seeds",
            flush=True,
        )
    error = max(parallel_pathways(k) for k in seeds)
    print(f"contributions of parallel pathways to modes: largest error {error:.2g}", flush=True)
    right = 0
    for group, std, name in (
        (4, 1e-3, "one pathway, small weights"),
        (4, 0.2, "one pathway, large weights"),
        (1, 1e-3, "a pathway per pair"),
    ):
        found = np.array([domain_network(k, group, std) for k in seeds])
        right += int(((found[:, 0] > SHARED) == (found[:, 1] > 0.5)).sum())
        told = "; ".join(
            f"{what} {v.mean():.3f} ({v.min():.3f} to {v.max():.3f})"
            for what, v in zip(("transfer between domains", "R^2 on untrained pairs"), found.T, strict=True)
        )
        print(f"4 domains, {name}: {told}", flush=True)
    print(f"whether domains generalise is said rightly of {right} of {3 * len(seeds)} networks", flush=True)


def linear_networks(seeds) -> None:
    rows = [network(seed) for seed in seeds]
    times = np.array([r[0] for r in rows])
    right = [r[1] == r[2] for r in rows]
    clear = [r[3] for r in rows]
    counts = {v: sum(r[2] == v for r in rows) for v in ("rich", "between", "lazy")}
    n = len(rows)
    print(f"half times within 2% in {(times < 0.02).sum()} of {n} networks, largest error {times.max():.2g}")
    told = sum(a for a, b in zip(right, clear, strict=True) if b)
    print(f"verdict right in {sum(right)} of {n}; in {told} of {sum(clear)} not near an edge; {counts}")


if __name__ == "__main__":
    main()
