# ruff: noqa: E501 - a table
"""A right call of every public function, whose arguments are replaced one by one by values that are wrong or odd."""

import itertools

import numpy as np

import neuralrace as nr
from neuralrace.dynamics import flows

XOR = nr.tasks.xor(hidden=2)
START = nr.init.gaussian(XOR.graph, 0.3)
CHAIN = nr.Task(nr.Graph.chain([2, 3, 2]), [[1.0, 0.5], [-0.5, 2.0]], [[1.0, 0.0], [0.5, -1.0]])
CHAIN_START = nr.init.gaussian(CHAIN.graph, 0.5)
TRAJ = nr.flow(XOR, START, t1=1.0, save=3)
MANY = nr.flow(CHAIN, nr.init.gaussian(CHAIN.graph, 0.5, seed=range(2)), t1=1.0, save=3)
REDUCTION = nr.reduce(XOR)
X, Y = np.array([[1.0, 0.0], [0.3, 1.0], [-1.0, 0.2]]), np.array([[1.0], [-1.0], [0.5]])
NET = nr.relu.train(X, Y, hidden=[4], std=0.3, steps=5, save=3)
PATHWAYS = nr.reduce(nr.Task(nr.Graph.pathways(2, 2, [[3], [3]]), np.eye(2), np.eye(2), {"p1h1": [1, 0]}))
KERNEL = np.array([[[2.0, 0.5], [0.5, 1.0]], [[2.5, 0.1], [0.1, 0.5]]])
TIMES = np.linspace(0.0, 5.0, 40)
PAIR = nr.universality.solve(TIMES, 1e-2, 1e-2, 0.0, 1.0, 1.0, 1.0, 1.0)
PAIRED = {"dh2": 1e-2, "dy2": 1e-2, "dx": 1.0, "dy": 1.0, "rate_h": 1.0, "rate_y": 1.0}


def one_run(std, seed=0):
    return nr.Run(XOR, nr.init.gaussian(XOR.graph, std, seed=seed), t1=1.0, save=2)


class Broken:
    """Something that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError


def odd_values():
    """Values that hardly any argument takes, made anew: some can be used once."""
    return [
        "text", "", "x" * 100_000, "a\0b", None, True, np.True_, b"1", 1j, float("nan"), float("inf"), -float("inf"), -1,
        -0.5, 0, 0.5, 1e-310, 1e160, -1e160, 10**12, 10**400, [], (), {}, set(), {0: 1}, {"q": 1.0}, object(), Broken(), int,
        len, iter(()), itertools.count(1), range(10**12), np.ma.masked, np.ma.masked_array(X, X > 0.5), [[1.0], [1.0, 2.0]],
        np.zeros((0, 2)), np.zeros((2, 0)), np.full((3, 2), np.nan), np.full((3, 2), 1e200), X * 1j, X.astype(str),
        X.astype(object), np.datetime64("2020"), np.zeros(2, "f,f"), [1, 2], [2, 1], [0.5, -0.5], [1e160, 1.0], [True, False],
        X, XOR, START, TRAJ, MANY, CHAIN.graph, REDUCTION, np.float32(0.5), np.array(2.0), np.array([[[1.0]]]),
    ]  # fmt: skip


def at(function, /, **keywords):
    return function, keywords


E, M, U, R, T, L = nr.exact, nr.measure, nr.universality, nr.relu, nr.tasks, nr.landscape
W1, W2 = np.eye(2) * 0.1, np.eye(2) * 0.1

CALLS = {
    "Adaptive": at(nr.Adaptive, rtol=1e-6, atol=1e-8, max_steps=1000),
    "LowRank": at(nr.LowRank, error=1e-3, max_steps=1000, of="outputs"),
    "Rates": at(lambda **k: nr.flow(XOR, START, t1=0.1, save=2, rates=nr.Rates(**k)), decay=0.1, scale={}, frozen=()),
    "Edge": at(lambda **k: nr.Graph({"x": 2, "y": 2}, [nr.Edge(**k), ("x", "y")]), source="x", target="y", fixed=np.eye(2)),
    "Graph": at(nr.Graph, nodes={"x": 2, "h": 2, "y": 1}, edges=[("x", "h"), ("h", "y")], activations={"h": "relu"}, biases=False),
    "Graph.chain": at(nr.Graph.chain, sizes=[2, 3, 1], biases=False),
    "Graph.pathways": at(nr.Graph.pathways, size_in=2, size_out=1, hidden=[[3], [3, 3]]),
    "Graph.routing": at(nr.Graph.routing, domains=3, size_in=2, hidden=(4, 4), size_out=2),
    "Graph.paths": at(lambda **k: (CHAIN.graph.paths_through(k["edge"]), CHAIN.graph.paths_into(k["node"])), edge="x->h1", node="y"),
    "Task": at(nr.Task, graph=CHAIN.graph, inputs=X, targets=X, gates={"h1": [1, 0, 1]}, sample_weight=[1, 1, 2]),
    "Task.from_moments": at(nr.Task.from_moments, graph=CHAIN.graph, contexts=[{"x": np.eye(2)}]),
    "Task.from_batches": at(nr.Task.from_batches, graph=CHAIN.graph, batches=[(X, X, {})]),
    "Task.syx": at(lambda **k: CHAIN.syx(k["path"]), path=("x->h1", "h1->y")),
    "Run": at(nr.Run, task=XOR, weights=START, measure=None, process=nr.flow, t1=1.0),
    "activity": at(nr.activity, task=CHAIN, weights=CHAIN_START, node="h1", inputs=X, gates=None),
    "attainable_loss": at(nr.attainable_loss, task=XOR),
    "conserved": at(nr.conserved, task=CHAIN, weights=CHAIN_START, rates=None),
    "descend": at(nr.descend, task=XOR, weights=START, lr=0.1, steps=3, save=2, optimizer="sgd", momentum=0.0, batch_size=None, loss="squared", stop_loss=None, rates=None, runs=None, record=None, save_weights=True, progress=False, dtype=np.float64, seed=0),
    "flows": at(flows, tasks=[XOR, XOR], weights=[START, START], t1=0.5, save=2, method=None, loss="squared", stop_loss=None, rates=None, record=None, save_weights=True, progress=False, dtype=np.float64),
    "flow": at(nr.flow, task=XOR, weights=START, t1=0.5, save=2, method=None, loss="squared", stop_loss=None, rates=None, runs=None, record=None, save_weights=True, progress=False, dtype=np.float64),
    "end_to_end": at(nr.end_to_end, graph=CHAIN.graph, network=CHAIN_START, source="x", target="y"),
    "error_rate": at(nr.error_rate, task=CHAIN, weights=CHAIN_START),
    "events": at(nr.events, trajectory=MANY, task=CHAIN, least=0.05),
    "expected_learning_time": at(nr.expected_learning_time, task=XOR, init="gaussian", scale=0.1, level=0.3, width=None, draws=2, seed=0, t1=None, tolerance=0.05),
    "gradient": at(nr.gradient, task=XOR, weights=START, loss="squared"),
    "loss": at(nr.loss, task=XOR, weights=START, loss="squared"),
    "predict": at(nr.predict, task=XOR, weights=START),
    "half_time": at(nr.half_time, t=TIMES, y=np.exp(-TIMES), share=0.5, first=None, last=None, axis=-1),
    "learning_time": at(nr.learning_time, trajectory=MANY, level=0.3, of=None, task=CHAIN),
    "mode_strengths": at(nr.mode_strengths, trajectory=MANY, task=CHAIN),
    "pathway_maps": at(nr.pathway_maps, graph=XOR.graph, network=START),
    "race": at(nr.race, candidates={"a": XOR}, level=0.2, strength=0.01, t1=20.0),
    "reduce": at(nr.reduce, task=XOR, basis="auto", ties=None, seed=0, directions=1, weights=None, error=1e-3, rates=None),
    "reduce at weights": at(nr.reduce, task=CHAIN, weights=CHAIN_START, error=1e-3),
    "Reduction.solve": at(REDUCTION.solve, strengths=0.1, t1=1.0, save=3),
    "Reduction.project": at(lambda **k: REDUCTION.project(k["weights"]), weights=START),
    "sweep": at(nr.sweep, function=one_run, over={"std": [0.1]}, seeds=None, zipped=(), batch=None, jobs=1, retry_failed=False, progress=False),
    "tangent_kernel": at(nr.tangent_kernel, task=XOR, weights=START),
    "unit_sizes": at(nr.unit_sizes, incoming=W1, outgoing=W2, normalise=False),
    "Trajectory.time": at(lambda **k: TRAJ.time(**k), unit="steps", lr=0.1),
    "Trajectory[...]": at(lambda **k: MANY[k["run"]], run=0),
    "singular_values": at(lambda **k: TRAJ.singular_values(k["edge"]), edge="x->p0h1"),
    "from_xarray": at(nr.Trajectory.from_xarray, ds=TRAJ.to_xarray()),
    "load": at(nr.Trajectory.load, path="/nowhere"),
    "balanced": at(E.balanced, t=TIMES, w1=W1, w2=W2, syx=np.eye(2), tau=1.0, sxx=None),
    "balanced_qq": at(E.balanced_qq, t=TIMES, w1=W1, w2=W2, syx=np.eye(2), tau=1.0, sxx=None),
    "continual": at(E.continual, t=TIMES, w1=W1, w2=W2, syx=[np.eye(2)], tau=1.0, sxx=None),
    "chain": at(E.chain, t=TIMES, s=1.0, d=1.0, a0=1e-3, depth=2, tau=1.0),
    "chain_time": at(E.chain_time, share=0.5, s=[1.0, 2.0], a0=1e-3, depth=2),
    "context_strength": at(E.context_strength, t=TIMES, s=1.0, d=1.0, contexts=3, b0=0.1, tau=1.0),
    "pathway_deep": at(E.pathway_deep, p=0.5, depth=3, sigma=1.0),
    "pathway_far": at(E.pathway_far, p=0.5, depth=3, sigma=1.0),
    "pathway_field": at(E.pathway_field, p=[0.5, 0.2], s=1.0, depths=[2, 3], sigma=1.0),
    "pathway_invariant": at(E.pathway_invariant, p=0.5, depth=3, sigma=1.0),
    "pathway_split": at(E.pathway_split, s=1.0, c=0.5, depth=3),
    "exact.pathways": at(E.pathways, t=TIMES, s=1.0, depths=[2, 3], p0=[0.1, 0.2], sigma=1.0, tau=1.0),
    "exact.routing": at(E.routing, t=TIMES, s=1.0, d=1.0, M=3, b0=0.1, tau=1.0),
    "exact.sharing": at(E.sharing, t=TIMES, s=1.0, d=1.0, M=3, P=2, b0=0.1, tau=1.0),
    "separability_loss": at(E.separability_loss, t=TIMES, delta=0.5, gating="xor", a0=0.1, tau=1.0),
    "separability_time": at(E.separability_time, level=0.2, delta=0.5, gating="xor", a0=0.1, tau=1.0),
    "xor_loss": at(E.xor_loss, t=TIMES, a0=0.1, tau=1.0),
    "init.balanced": at(nr.init.balanced, graph=CHAIN.graph, lam=0.0, scale=0.1, seed=0, key=None),
    "init.gaussian": at(nr.init.gaussian, graph=CHAIN.graph, std=0.1, seed=0, key=None),
    "init.orthogonal": at(nr.init.orthogonal, graph=CHAIN.graph, scale=0.1, seed=0, key=None),
    "init.xavier": at(nr.init.xavier, graph=CHAIN.graph, gain=0.1, seed=0, key=None),
    "init.decoupled": at(nr.init.decoupled, reduction=REDUCTION, strength=0.1),
    "fixed_points": at(L.fixed_points, task=CHAIN, starts=nr.init.gaussian(CHAIN.graph, 0.5, seed=range(2)), tol=1e-9, max_steps=50),
    "hessian": at(L.hessian, task=CHAIN, weights=CHAIN_START),
    "hessian_eigenvalues": at(L.hessian_eigenvalues, task=CHAIN, weights=CHAIN_START),
    "index": at(L.index, task=CHAIN, weights=CHAIN_START, flat=1e-7),
    "slowest": at(L.slowest, speed=[1.0, 0.5, 1.0]),
    "two_layer_saddles": at(L.two_layer_saddles, strengths=[2.0, 1.0], hidden=3),
    "visits": at(L.visits, task=CHAIN, runs=MANY),
    "concentration": at(M.concentration, k=KERNEL, groups=None),
    "contributions": at(M.contributions, graph=CHAIN.graph, network=CHAIN_START, u=np.eye(2), v=np.eye(2)),
    "cosine": at(M.cosine, a=KERNEL, b=KERNEL, axes=2),
    "cosine_similarity": at(M.cosine_similarity, activity=X, centre=False),
    "crossing": at(M.crossing, x=TIMES, y=np.exp(-TIMES), value=0.5, rising=False, axis=-1),
    "last_crossing": at(M.last_crossing, x=TIMES, y=np.exp(-TIMES), value=0.5, rising=False, axis=-1),
    "distance_moved": at(M.distance_moved, graph=CHAIN.graph, weights=MANY.weights, relative=False),
    "domain_similarity": at(M.domain_similarity, similarity=np.eye(4), domains=[0, 0, 1, 1]),
    "drawn_distance": at(M.drawn_distance, x=TIMES, curve=np.exp(-TIMES), other=np.exp(-2 * TIMES), top=None),
    "gram": at(M.gram, activity=X, centre=False),
    "group_strengths": at(M.group_strengths, k=KERNEL, groups=None),
    "growing_part": at(M.growing_part, w1=W1, w2=W2, v=None, u=None),
    "kernel_change": at(M.kernel_change, kernels=KERNEL),
    "kernel_turn": at(M.kernel_turn, kernels=KERNEL),
    "linearised_loss": at(M.linearised_loss, task=CHAIN, weights=CHAIN_START, t=TIMES),
    "multidimensional_scaling": at(M.multidimensional_scaling, points=np.arange(24.0).reshape(1, 2, 4, 3) ** 0.5, rounds=3),
    "off_diagonal_share": at(M.off_diagonal_share, k=KERNEL, groups=None),
    "pathway_coordinates": at(M.pathway_coordinates, graph=CHAIN.graph, weights=CHAIN_START, initial=CHAIN_START, u=np.eye(2), v=np.eye(2), sigma=1.0),
    "plateau_share": at(M.plateau_share, t=TIMES, loss=np.exp(-TIMES), until=None),
    "power_law_exponent": at(M.power_law_exponent, x=TIMES[1:], y=TIMES[1:] ** 2),
    "principal_components": at(M.principal_components, points=X, k=2),
    "share_within": at(M.share_within, vectors=X, basis=np.eye(2)),
    "squared_distances": at(M.squared_distances, activity=X),
    "stopping_time": at(M.stopping_time, trajectory=TRAJ),
    "xor_strengths": at(M.xor_strengths, w1=np.ones((4, 2)), w2=np.ones((1, 4))),
    "as_gdln": at(R.as_gdln, net=NET, i=-1),
    "relu.train": at(R.train, X=X, Y=Y, hidden=(4,), std=0.1, lr=1e-3, steps=3, save=2, seed=0, objective="sum", bias=False, method="descend", save_weights=True, weights=None, readout="all"),
    "relu.discover": at(R.discover, X=X, Y=Y, hidden=(4,), k=None, runs=1, std=0.3, lr=0.1, steps=40, every=20, seed=0, layer=1, max_clusters=3, tolerance=0.05),
    "context_patterns": at(R.context_patterns, items=3, contexts=2),
    "growth_rates": at(R.growth_rates, patterns=[[1, 0, 1]], X=X, E=Y),
    "implementable": at(R.implementable, pattern=[1, 0, 1], X=X, bias=False),
    "implementable_patterns": at(R.implementable_patterns, X=X, bias=False),
    "pathway_residual": at(R.pathway_residual, X=X, Y=Y, patterns=[[1, 0, 1]]),
    "pattern_candidates": at(R.pattern_candidates, X=X, Y=Y, patterns=[[1, 0, 1]], symmetries=(), columns=None, common=True, hidden=4),
    "pattern_text": at(R.pattern_text, pattern=[1, 0, 1]),
    "predict_pathways": at(R.predict_pathways, X=X, Y=Y, share=1e-3, max_rounds=2, starts=4, seed=0, tie=1e-4, bias=False),
    "self_consistent": at(R.self_consistent, X=X, residual=Y, starts=4, seed=0, iterations=50),
    "imitate": at(R.imitate, net=NET, task=nr.tasks.linear([[1.0, 0.0]], hidden=3), matching="members", at=-1),
    "mixed_share": at(R.mixed_share, net=NET, context=[0, 0, 1], i=-1, layer=1),
    "reduction_conditions": at(R.reduction_conditions, net=NET, patterns=[[1, 0, 1]]),
    "tasks.blobs": at(T.blobs, side=4, pixels=3, width=1.0, hidden=3),
    "tasks.circulant": at(T.circulant, domains=3, trained=2, shift=0, seed=None),
    "tasks.contexts": at(T.contexts, n=2, structures=None, gating="relu", hidden=3),
    "tasks.contextual_classification": at(T.contextual_classification, n=20, seed=0, hidden=3),
    "tasks.gated": at(T.gated, inputs=X, targets=Y, patterns=[[1, 0, 1]], hidden=3, columns=None),
    "tasks.grid": at(T.grid, rows=2, cols=3, sigma=2.0, features=None, seed=0, hidden=3),
    "tasks.hierarchy": at(T.hierarchy, levels=3, branching=2, hidden=3),
    "tasks.input_domains": at(T.input_domains, base=X, domains=2, inputs="permutation"),
    "tasks.linear": at(T.linear, syx=[[1.0, 0.0]], hidden=3),
    "tasks.modular_addition": at(T.modular_addition, modulus=5, share=0.8, part="train", hidden=3),
    "tasks.partition": at(T.partition, classes=2, per_class=2, flip=0.1, features=None, seed=0, hidden=3),
    "tasks.ring": at(T.ring, n=4, sigma=2.0, features=None, seed=0, hidden=3),
    "tasks.routing": at(T.routing, domains=3, trained=2, items=2, hidden=(3, 3), seed=0),
    "tasks.separability": at(T.separability, delta=0.5, gating="xor", hidden=3),
    "tasks.sharing": at(T.sharing, domains=4, group=2, items=2, hidden=(3, 3), seed=0),
    "tasks.transformed": at(T.transformed, base=(X, [0, 1, 2]), domains=2, trained=2, inputs="permutation", hidden=(4, 4), seed=0),
    "tasks.tree": at(T.tree, branching=(2, 2), flip=0.1, features=None, seed=0, hidden=3),
    "tasks.two_points": at(T.two_points, dx2=1.0, dy2=0.5, hidden=(3, 3)),
    "tasks.xor": at(T.xor, hidden=3),
    "compare": at(U.compare, predicted=[1.0, 2.0, 3.0], measured=[1.0, 2.5, 2.9], confidence=0.95, draws=50, seed=0),
    "equal_targets": at(U.equal_targets, t=TIMES, dh2=1e-2, dy2=1e-2, dx=1.0, rate_h=1.0, rate_y=1.0),
    "final_cdf": at(U.final_cdf, h=0.5, gain=1.0, dx=1.0, dy=1.0, rate_h=1.0, rate_y=1.0),
    "final_density": at(U.final_density, h=0.5, gain=1.0, dx=1.0, dy=1.0, rate_h=1.0, rate_y=1.0),
    "final_distance": at(U.final_distance, **PAIRED),
    "universality.fit": at(U.fit, t=TIMES, dh2=PAIR.dh2, dy2=PAIR.dy2, w=PAIR.w, dx=1.0, dy=1.0, confidence=0.95),
    "fit_rates": at(U.fit_rates, t=TIMES, dh2=PAIR.dh2, dy2=PAIR.dy2, w=PAIR.w, dx=1.0, dy=1.0, confidence=0.95),
    "universality.fixed_points": at(U.fixed_points, **PAIRED),
    "initial_distance": at(U.initial_distance, depth=3, gain=1.0, dx=1.0),
    "universality.loss": at(U.loss, t=TIMES, dy2=PAIR.dy2, w=PAIR.w, dy=1.0, offset=0.0, rate_mean=0.0),
    "plane_velocity": at(U.plane_velocity, dh2=1e-2, w=0.0, a_high=1.0, dx=1.0, dy=1.0, rate_h=1.0, rate_y=1.0),
    "scales": at(U.scales, **PAIRED),
    "smooth_distances": at(U.smooth_distances, distances=[[0.0, 1.0], [1.0, 0.0]], unit=1.0, normalised=True),
    "universality.solve": at(U.solve, t=TIMES, w=0.0, **PAIRED),
    "structure": at(U.structure, x=X, y=Y, rate_h=1.0, rate_y=1.0),
    "velocity": at(U.velocity, w=0.0, **PAIRED),
    "graph.plot": at(XOR.graph.plot, gates=None),
    "trajectory.plot": at(TRAJ.plot, over=None),
    "phase_portrait": at(nr.plot.phase_portrait, reduction=PATHWAYS, modes=(0, 1), starts=None),
    "plot_representations": at(M.plot_representations, trajectory=nr.flow(CHAIN, CHAIN_START, t1=5.0, save=9), node="h1", times=2, labels=None),
    "context_candidates": at(R.context_candidates, X=X, Y=Y, context=[0, 0, 1], columns=None, common=True, hidden=3),
    "train_like": at(R.train_like, net=NET, task=NET.task, weights=nr.init.gaussian(NET.task.graph, 0.3)),
    "sweep_figure": at(nr.sweep_figure, ds=None, measure="final_loss", against=None),
    "watch": at(nr.watch, model=len, x=X, y=Y, probes=3, loss=None, layers=None, branches=None, domains=None, items=None, output=None),
    "from_recordings": at(nr.watch.from_recordings, recorded=KERNEL, x=X[:2], y=Y[:2], steps=None, distances=False),
}  # fmt: skip
