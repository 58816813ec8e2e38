"""Workloads of the published codes, done as those do them: written anew from their description.

Sizes, rates, what is recorded and how often are theirs. Each function makes its data, off the clock, and
gives what is to be timed and how many times its epochs are the timed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace_papers import zoo

Numbers = list[float]
Worked = tuple[Numbers, dict[str, int]]  # numbers to compare, and how many were recorded of what
Work = Callable[[], Worked]  # does all of it
Timed = tuple[Work, float]  # and how many times as long it would take


def one_thread() -> Any:
    """PyTorch with all that it imports late."""
    import torch

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)
    return torch


def some(values: Any, count: int = 20) -> Numbers:
    """Evenly spaced ones."""
    values = np.asarray(values, float).reshape(-1)
    return values[np.linspace(0, len(values) - 1, count).round().astype(int)].tolist()


# -- routing (neural_race Fig. 4): 7 domains, 4 trained, 64 units, 500 epochs, 10 networks -----------------

DOMAINS, TRAINED, STEP = 7, 4, 0.16  # .02 on the mean over outputs, summed over routes, without the half


def routing_size(quick: bool) -> tuple[int, int]:
    return (2, 20) if quick else (10, 500)


def routing_starts(quick: bool) -> dict[str, np.ndarray]:
    return nr.init.orthogonal(nr.Graph.routing(DOMAINS, 4), scale=0.2, seed=range(routing_size(quick)[0]))


def routing_arrays(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Items, features, trained pairs; stacks of weights, (starts, domains, out, in) or (starts, out, in)."""
    weights, domains = routing_starts(quick), range(DOMAINS)
    x = nr.init.random_frame(np.random.default_rng(0), 4, 4)  # as in nr.tasks.routing
    trained = np.array([[(j - i) % DOMAINS < TRAINED for j in domains] for i in domains])
    first, last = (np.stack([weights[e.format(i)] for i in domains], axis=1) for e in ("x{}->h1", "h2->y{}"))
    return x, nr.tasks.structured.tree_features(3), trained, [first, weights["h1->h2"], last]


def routing(values: bool) -> Callable[[bool], Timed]:
    """A loop over routes in PyTorch; with `values` singular values of three layers, every second epoch."""

    def prepare(quick: bool) -> Timed:
        torch = one_thread()
        starts, epochs = routing_size(quick)
        weights = routing_starts(quick)
        x = torch.tensor(nr.init.random_frame(np.random.default_rng(0), 4, 4))  # as in nr.tasks.routing
        y = torch.tensor(nr.tasks.structured.tree_features(3))
        trained = np.array([[(j - i) % DOMAINS < TRAINED for j in range(DOMAINS)] for i in range(DOMAINS)])

        def layer(w: np.ndarray) -> Any:
            made = torch.nn.Linear(w.shape[1], w.shape[0], bias=False, dtype=torch.float64)
            made.weight.data = torch.tensor(w)
            return made

        def one(k: int) -> tuple[list[float], list[Any]]:
            encoders = torch.nn.ModuleList([layer(weights[f"x{i}->h1"][k]) for i in range(DOMAINS)])
            shared = layer(weights["h1->h2"][k])
            decoders = torch.nn.ModuleList([layer(weights[f"h2->y{i}"][k]) for i in range(DOMAINS)])
            watched = (encoders[0], shared, decoders[0])
            optimizer = torch.optim.SGD(torch.nn.ModuleList([encoders, shared, decoders]).parameters(), STEP)
            losses, found = [], []
            for epoch in range(epochs):
                optimizer.zero_grad()
                hidden = [shared(encoder(x)) for encoder in encoders]
                each = torch.zeros(DOMAINS, DOMAINS, dtype=torch.float64)
                for i, h in enumerate(hidden):
                    for j, decoder in enumerate(decoders):
                        if trained[i, j]:
                            each[i, j] = ((decoder(h) - y) ** 2).sum(dim=1).mean() / 2
                loss = each.sum() / (DOMAINS * TRAINED)
                losses.append(loss.item())
                if values and epoch % 2 == 0:
                    found.append([np.linalg.svd(v.weight.detach().numpy())[1] for v in watched])
                loss.backward()
                optimizer.step()
            return losses, found

        def run() -> Worked:
            done = [one(k) for k in range(starts)]
            losses = np.array([losses[::2] for losses, _ in done])
            largest = [[f[1][0] for f in found] for _, found in done] if values else []
            numbers = [*some(losses), *some(largest)] if values else some(losses)
            singular = sum(v.size for _, found in done for each in found for v in each)
            return numbers, {"losses": losses.size, **({"singular values": singular} if values else {})}

        return run, 1.0

    return prepare


# -- the reduction of routing (neural_race Eq. 13-14) ----------------------------------------------------

STRENGTH = 0.2 / 2.5


def reduced(quick: bool) -> Timed:
    """Ten small steps of Euler's method for each epoch, in NumPy."""
    epochs = 200 if quick else 5000
    x, y = np.eye(4), nr.tasks.structured.tree_features(3)

    def run() -> Worked:
        s = np.linalg.svd(y.T @ x)[1] / 4
        b1, b2, b3 = (np.full((epochs + 1, 4), STRENGTH) for _ in range(3))
        dt, k, m = STEP / 10, TRAINED / (DOMAINS * TRAINED), DOMAINS
        for t in range(epochs):
            left = s - b3[t] * b2[t] * b1[t] / 4
            b1[t + 1] = b1[t] + k * b3[t] * b2[t] * left * dt
            b2[t + 1] = b2[t] + k * m * b3[t] * b1[t] * left * dt
            b3[t + 1] = b3[t] + k * b2[t] * b1[t] * left * dt
        kept = [b[:: epochs // 20] for b in (b1, b2)]  # b3 is b1
        return some(kept[1]), {"strengths": np.size(kept)}

    return run, 1.0


# -- two pathways of width 1000 (multipathway Fig. 5), maps of both at every epoch -------------------------

RATE = 0.01  # on the squared error, summed over samples, without the half
EPOCHS = {4: 10_000, 7: 20_000}


def pathway_task(depth: int, quick: bool) -> tuple[nr.Task, dict[str, np.ndarray]]:
    width = 60 if quick else 1000
    graph = nr.Graph.pathways(8, 15, [[width] * (depth - 1)] * 2)
    return nr.tasks.hierarchy(4, graph=graph), nr.init.gaussian(graph, 0.01 * (1000 / width) ** 0.5)


def pathways(depth: int) -> Callable[[bool], Timed]:
    def prepare(quick: bool) -> Timed:
        torch = one_thread()
        timed, epochs = (5, 50) if quick else (100, EPOCHS[depth])
        task, weights = pathway_task(depth, quick)
        x, y = torch.eye(8), torch.tensor(task.samples.targets["y"], dtype=torch.float32)
        start = [torch.tensor(w, dtype=torch.float32) for w in weights.values()]
        ends = dict(zip(weights, task.graph.edges.values(), strict=True))

        def path(w: dict[str, Any], a: int) -> Any:
            h = x
            for e, pair in ends.items():
                if any(n.startswith(f"p{a}") for n in pair):
                    h = h @ w[e].T
            return h

        def run() -> Worked:
            w = {e: v.clone().requires_grad_() for e, v in zip(weights, start, strict=True)}
            optimizer = torch.optim.SGD(list(w.values()), lr=RATE)
            losses, maps = [], []
            for _ in range(timed):
                loss = ((path(w, 0) + path(w, 1) - y) ** 2).sum()
                losses.append(loss.item())
                with torch.no_grad():
                    maps.append([path(w, a) for a in range(2)])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return [losses[0] / 16, losses[-1] / 16], {}  # of some of its epochs

        return run, epochs / timed

    return prepare


# -- ReLU network, gated network, race (make_haste_slowly Fig. 4) ------------------------------------------

HIDDEN, LR, STD = 700, 1e-3, 0.005 / 700
STRUCTURES = ("hierarchy", "ring", "cross")


def relu_data(quick: bool) -> tuple[Any, Any, dict[str, np.ndarray], int]:
    x, y = nr.tasks.contexts(3, STRUCTURES).arrays
    graph = nr.Graph.chain([x.shape[1], HIDDEN, y.shape[1]], activations="relu")
    return x, y, nr.init.gaussian(graph, STD, seed=0), 160 if quick else 8000


def relu(dtype: str) -> Callable[[bool], Timed]:
    """A jitted update and a jitted loss at every epoch, hidden activity at every tenth."""

    def prepare(quick: bool) -> Timed:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", dtype == "float64")
        x, y, start, epochs = relu_data(quick)
        inputs, targets = x.T.astype(dtype), y.T.astype(dtype)

        def run() -> Worked:
            hidden = jax.jit(lambda w, batch: jnp.maximum(jnp.dot(w[0], batch[0]), 0))
            predict = jax.jit(lambda w, batch: jnp.dot(w[1], hidden(w, batch)))
            loss = jax.jit(lambda w, batch: 0.5 * jnp.sum(jnp.power(predict(w, batch) - batch[1], 2)))
            slope = jax.grad(loss)
            update = jax.jit(lambda w, b: [v - LR * g for v, g in zip(w, slope(w, b), strict=True)])
            w: Any = [start[e].astype(dtype) for e in ("x->h1", "h1->y")]
            losses, activity = np.zeros(epochs), []
            for epoch in range(epochs):
                w = update(w, (inputs, targets))
                losses[epoch] = loss(w, (inputs, targets))
                if epoch % 10 == 0:
                    activity.append(np.asarray(hidden(w, (inputs, targets))))
            return some(losses), {"losses": losses.size, "activity": np.size(activity)}

        return run, 1.0

    return prepare


def gated_task() -> tuple[nr.Task, dict[str, np.ndarray]]:
    task = nr.tasks.contexts(3, STRUCTURES, gating="both")
    return task, nr.init.gaussian(task.graph, 10 * STD, seed=0)


def gated(quick: bool) -> Timed:
    """Seven pathways: a jitted update, loss and the singular values of each pathway's map at every epoch.

    By the gradient of the whole loss; the published script has the first pathway learn alone.
    """
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    epochs = 40 if quick else 8000
    task, start = gated_task()
    x, y, gates = task.samples.inputs, task.samples.targets["y"], task.samples.gates
    routes = [(task.graph.edges[a][0], a, b) for a, b in task.graph.paths()]

    def run() -> Worked:
        def predict(w: Any) -> Any:
            out = 0.0
            for source, a, b in routes:
                gate = gates[task.graph.edges[a][1]]
                out = out + jnp.dot(jnp.dot(x[source], w[a].T) * gate[:, None], w[b].T)
            return out

        loss = jax.jit(lambda w: 0.5 * jnp.sum(jnp.power(predict(w) - y, 2)))
        slope = jax.grad(loss)
        update = jax.jit(lambda w: jax.tree.map(lambda v, g: v - LR * g, w, slope(w)))
        w: Any = {e: np.asarray(v) for e, v in start.items()}
        losses, values = np.zeros(epochs), np.zeros((epochs, len(routes)))
        for epoch in range(epochs):
            w = update(w)
            losses[epoch] = loss(w)
            for k, (_, a, b) in enumerate(routes):
                values[epoch, k] = np.linalg.svd(jnp.dot(w[b], w[a]), full_matrices=False)[1][0]
        return [*some(losses), *some(values.T)], {"losses": losses.size, "singular values": values.size}

    return run, 1.0


def residual() -> nr.Task:
    """What an always open pathway leaves, with three pathways open in two contexts each."""
    x, y = nr.tasks.contexts(3).arrays
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    open_in = np.repeat(1 - np.eye(3), 8, axis=1)
    return nr.tasks.gated(x[:, :8], left, open_in, hidden=100)


RACE_START = 6e-5


def race(quick: bool) -> Timed:
    """Strengths of the modes of three pathways, a step of Euler's method for each epoch in NumPy and JAX."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    epochs = 100 if quick else 8000
    task = residual()
    x, y = task.samples.inputs["x"], task.samples.targets["y"]
    gates = [task.samples.gates[f"p{k}h1"] for k in range(3)]

    def run() -> Worked:
        n = len(x)
        syx = [(y * g[:, None]).T @ x / n for g in gates]
        vt = np.linalg.svd(np.concatenate(syx))[2]
        u = [m @ vt.T for m in syx]
        s = [np.linalg.norm(m, axis=0) for m in u]
        u = [m / np.where(v > 1e-12, v, 1) for m, v in zip(u, s, strict=True)]
        seen = [[((x * (a * b)[:, None]) @ vt.T * (x @ vt.T)).mean(axis=0) for b in gates] for a in gates]
        overlap = [[jnp.asarray(np.eye(8) * (a.T @ b)) for b in u] for a in u]
        b = np.full((epochs + 1, 3, 8), RACE_START)
        for t in range(epochs):
            for k in range(3):
                error = s[k] - b[t, k] * seen[k][k]
                for j in range(3):
                    if j != k:
                        error = error - overlap[k][j] @ (b[t, j] * seen[k][j])
                b[t + 1, k] = b[t, k] + LR * n * 2 * b[t, k] * error
        out = sum(
            np.einsum("tm,nm,om->tno", b[:: epochs // 20, k], (x * g[:, None]) @ vt.T, u[k])
            for k, g in enumerate(gates)
        )
        return some(0.5 * ((out - y) ** 2).sum(axis=(1, 2)), 21), {"losses": len(out)}

    return run, 1.0


# -- two points (representations_align): training and fits of effective rates -----------------------------


def two_point_model(network: Any) -> Any:
    """A network of `nr.universality` in PyTorch, with random weights."""
    import torch

    torch.manual_seed(0)
    linear, sizes = torch.nn.Linear, [1, *[network.width] * network.depth]
    layers = [torch.nn.Sequential(linear(*pair), torch.nn.LeakyReLU()) for pair in pairwise(sizes)]
    model = torch.nn.Sequential(*layers, linear(network.width, 1))
    for module in model.modules():
        if isinstance(module, linear):
            torch.nn.init.xavier_normal_(module.weight, network.gain)
            torch.nn.init.zeros_(module.bias)
    return model


def two_points(quick: bool) -> Timed:
    """The default network in PyTorch; distances half way and at the output, alignment and loss, each step."""
    torch = one_thread()
    network, lr = zoo.ZOO["default"]
    timed, steps = (20, 40) if quick else (300, 6000)
    x, y = (torch.tensor(v, dtype=torch.float32) for v in nr.tasks.two_points().arrays)

    def run() -> Worked:
        model = two_point_model(network)
        encoder, decoder = model[: network.half], model[network.half :]
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        rows = []
        for _ in range(timed):
            hidden = encoder(x)
            output = decoder(hidden)
            loss = ((output - y) ** 2).sum(1).mean() / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                dh, dy = hidden[1] - hidden[0], output[1] - output[0]
                rows.append((float(dh @ dh), float(dy @ dy), float(dy @ (dy - y[1] + y[0])), float(loss)))
        return [rows[timed // 2][3]], {}  # on the plateau: weights are drawn by another generator

    return run, steps / timed


def series(times: int) -> tuple[np.ndarray, ...]:
    """Series of a small network, as they are recorded: of the theory with slow, correlated deviations."""
    t = np.linspace(0, times, times)
    start = (0.03, 1e-4, 1e-4 - 1e-3)
    curves = nr.universality.solve(t, *start, 1.0, 0.5**0.5, 0.1 * 300 / times * 1.6, 0.6 * 300 / times)
    wave = 1 + 0.02 * np.sin(np.linspace(0, 9, times)[None] + np.arange(3)[:, None]) * (t > 0)
    return (t, *(np.stack(curves) * wave))


def fit(times: int) -> Callable[[bool], Timed]:
    """Rates alone, from the observed start: 200 guesses and SciPy's search, each try an implicit solve."""

    def prepare(quick: bool) -> Timed:
        from scipy.integrate import solve_ivp
        from scipy.optimize import minimize

        n = 60 if quick else times
        _, h2, y2, w = series(n)
        dx2, dy2 = 1.0, 0.5

        def slope(t: float, z: Any, a: float, b: float) -> list[float]:
            h, y, v = z
            along = -b / 2 * (3 * v - y + dy2) * h - a * dx2 / 2 * (y + v) * v / h
            return [-a * dx2 * v, -v * (b * h + a * dx2 * y / h), along]

        def squares(rates: Any) -> float:
            found = solve_ivp(
                slope, (0, n), (h2[0], y2[0], w[0]), args=tuple(rates), dense_output=True, method="Radau"
            )
            z: Any = found.sol(np.linspace(0, n, n))
            return sum(((a - b) ** 2).sum() for a, b in zip((h2, y2, w), z, strict=True))

        def run() -> Worked:
            shape = np.array([h2[-1] ** 2 / (dx2 * dy2), 1])
            guesses = np.logspace(-6, 2, 200)
            best = guesses[np.argmin([squares(g * shape) for g in guesses])]
            return minimize(squares, best * shape).x.tolist(), {}

        return run, 1.0

    return prepare


# -- image routing by mini-batches (neural_race Fig. 7): 784-128-128-10, batches of 8 ---------------------

IMAGES, BATCH, MOMENTUM, IMAGE_RATE = 80, 8, 0.9, 0.02
EPOCH = 7500  # steps, of which there were 1000 times as many


def image_data(partners: int, quick: bool) -> tuple[nr.Task, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Random images. All of them are the batch in the quick form, so that both sides see the same."""
    domains, images = (6, BATCH) if quick else (40, IMAGES)
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((domains, images, 784)), rng.integers(10, size=images)
    graph = nr.Graph.routing(domains, 784, (128, 128), 10, biases=True)
    base = nr.Task(nr.Graph.chain([784, 1, 10]), x[0], np.eye(10)[labels])
    pairs = nr.tasks.circulant(domains, min(partners, domains), seed=0)
    task = nr.tasks.transformed(base, domains, pairs, list(x), samples=True, graph=graph)
    return task, nr.init.xavier(graph, 0.1), x, pairs


def images(partners: int) -> Callable[[bool], Timed]:
    """All pairs of domains are computed; a gate of 0 and 1 multiplies their losses."""

    def prepare(quick: bool) -> Timed:
        torch = one_thread()
        functional = torch.nn.functional
        steps = 3 if quick else 30
        task, weights, x, pairs = image_data(partners, quick)
        inputs, gate = torch.tensor(x, dtype=torch.float32), torch.tensor(pairs, dtype=torch.float32)
        m, images = inputs.shape[:2]
        targets = targets_of(task, m, images)

        def layer(name: str) -> Any:
            w = weights[name]
            made = torch.nn.Linear(w.shape[1], w.shape[0])
            made.weight.data = torch.tensor(w, dtype=torch.float32)
            made.bias.data.zero_()
            return made

        def run() -> Worked:
            encoders = torch.nn.ModuleList([layer(f"x{i}->h1") for i in range(m)])
            shared = layer("h1->h2")
            heads = np.stack([weights[f"h2->y{j}"].T for j in range(m)])
            decoder = torch.nn.Parameter(torch.tensor(heads, dtype=torch.float32))
            bias = torch.nn.Parameter(torch.zeros(m, 1, 10))
            parameters = [*encoders.parameters(), *shared.parameters(), decoder, bias]
            optimizer = torch.optim.SGD(parameters, lr=IMAGE_RATE, momentum=MOMENTUM)
            losses = []
            for _ in range(steps):
                rows = torch.randperm(images)[:BATCH]
                h = torch.stack([f(v[rows]) for f, v in zip(encoders, inputs, strict=True)], dim=1)
                out = torch.matmul(shared(h.reshape(BATCH * m, -1)), decoder) + bias
                out = out.permute(1, 0, 2).reshape(-1, 10)
                wanted = targets[:, rows].T[:, None].repeat(1, m, 1).reshape(-1)
                each = functional.cross_entropy(out, wanted, reduction="none")
                loss = (each.view(BATCH, m, m).mean(dim=0) * gate).sum() / gate.sum()
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return losses if quick else losses[:1], {}

        return run, 1.0 if quick else EPOCH / steps

    return prepare


def targets_of(task: nr.Task, domains: int, images: int) -> Any:
    """Labels of each output domain, `(domains, images)`."""
    import torch

    found = np.zeros((domains, images), int)
    for c in task.sample_contexts:
        for o, y in c.targets.items():
            found[int(o[1:])] = y.argmax(axis=1)
    return torch.tensor(found)
