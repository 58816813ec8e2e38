"""What a user would write by hand, as well as one can: batched PyTorch, a JAX scan, SciPy, moments of pairs.

Each does the work of the same row of `peers.py`, and records what that records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks import published
from benchmarks.published import Timed, Worked, some

# -- 14 pathways of 32 under random gates: moments of pairs of paths, DOP853 -------------------------------

PATHS, WIDTH, GATES_END, RTOL, ATOL = 14, 32, 100.0, 1e-8, 1e-10


def gates_data(quick: bool) -> tuple[nr.Graph, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Graph, inputs, targets, gates (contexts, paths) and initial weights; 10,000 contexts."""
    rng, contexts = np.random.default_rng(0), 300 if quick else 10_000
    graph = nr.Graph.pathways(8, 6, [[WIDTH]] * PATHS)
    x, maps = rng.standard_normal((contexts, 8)), rng.standard_normal((PATHS, 6, 8))
    gates = rng.integers(0, 2, (contexts, PATHS)).astype(float)
    y = np.einsum("cp,poi,ci->co", gates, maps, x) / PATHS + 0.1 * rng.standard_normal((contexts, 6))
    return graph, x, y, gates, nr.init.gaussian(graph, 0.05, seed=0)


def pairs_of_paths(quick: bool) -> Timed:
    """Sums over contexts once, then gradients of all pathways as stacks of matrices."""
    from scipy.integrate import solve_ivp

    _, x, y, gates, weights = gates_data(quick)
    names = [f"p{k}h1" for k in range(PATHS)]
    first, second = (np.stack([weights[e.format(n)] for n in names]) for e in ("x->{}", "{}->y"))
    ts = np.linspace(0, GATES_END, 200)

    def run() -> Worked:
        n, cut = len(x), first.size
        seen = (gates[:, :, None] * x[:, None]).reshape(n, -1)
        sxx, syx, syy = seen.T @ seen / n, y.T @ seen / n, (y**2).sum() / n

        def loss_and_slope(w: np.ndarray) -> tuple[float, np.ndarray]:
            a, b = w[:cut].reshape(first.shape), w[cut:].reshape(second.shape)
            whole = (b @ a).transpose(1, 0, 2).reshape(len(syx), -1)
            off = whole @ sxx - syx
            each = off.reshape(len(syx), PATHS, -1).transpose(1, 0, 2)
            loss = 0.5 * (np.sum(whole * (off - syx)) + syy)
            return loss, np.r_[(b.swapaxes(1, 2) @ each).ravel(), (each @ a.swapaxes(1, 2)).ravel()]

        start, moves = np.r_[first.ravel(), second.ravel()], lambda t, w: -loss_and_slope(w)[1]
        end = (0, GATES_END)
        states = solve_ivp(moves, end, start, "DOP853", ts, rtol=RTOL, atol=ATOL).y.T
        losses = [loss_and_slope(w)[0] for w in states]
        return some(losses), {"losses": len(losses), "weights": states.size}

    return run, 1.0


# -- 16 layers of 100: PyTorch ----------------------------------------------------------------------------

DEEP_END = {"learned": 10.0, "long": 100.0}  # the loss is 1.5e-7 of the first, and rounding
DEEP_RATE = 0.01  # about a third of the largest stable one, as one takes it


def deep_data(quick: bool) -> tuple[nr.Task, dict[str, np.ndarray]]:
    graph = nr.Graph.chain([8, *[100] * (3 if quick else 15), 15])
    return nr.tasks.hierarchy(4, graph=graph), nr.init.xavier(graph, 0.9, seed=0)


def deep(end: float) -> Any:
    def prepare(quick: bool) -> Timed:
        torch = published.one_thread()
        task, weights = deep_data(quick)
        x, y = (torch.tensor(v) for v in task.arrays)
        steps = round((1.0 if quick else end) / DEEP_RATE)

        def run() -> Worked:
            layers = [torch.tensor(w, requires_grad=True) for w in weights.values()]
            optimizer, losses, kept = torch.optim.SGD(layers, DEEP_RATE), [], []
            for step in range(steps):
                h = x
                for w in layers:
                    h = h @ w.T
                loss = 0.5 * ((h - y) ** 2).sum(1).mean()
                if step % (steps // 100) == 0:
                    losses.append(loss.item())
                    kept.append([w.detach().clone() for w in layers])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return some(losses), {"losses": len(losses), "weights": sum(w.numel() for k in kept for w in k)}

        return run, 1.0

    return prepare


# -- routing, 500 epochs, five starts: batched PyTorch in single precision, a JAX scan ---------------------


def routing_batched(quick: bool) -> Timed:
    """Inputs, starts and outputs are axes of one product."""
    torch = published.one_thread()
    _, epochs = published.routing_size(quick)
    x, y, trained, stacks = published.routing_arrays(quick)
    single = lambda v: torch.tensor(np.asarray(v), dtype=torch.float32)  # noqa: E731
    x, y, mask = single(x), single(y), single(trained / trained.sum() / len(x))

    def run() -> Worked:
        w = [single(v).requires_grad_() for v in stacks]
        optimizer, losses = torch.optim.SGD(w, published.STEP), []
        for epoch in range(epochs):
            hidden = (x @ w[0].mT).flatten(1, 2) @ w[1].mT
            out = (hidden @ w[2].flatten(1, 2).mT).unflatten(1, (-1, len(x))).unflatten(3, (-1, len(y[0])))
            loss = ((out - y[:, None]) ** 2).sum(dim=(2, 4)) * mask / 2
            each = loss.sum(dim=(1, 2))
            if epoch % 2 == 0:
                losses.append(each.detach())
            optimizer.zero_grad()
            each.sum().backward()
            optimizer.step()
        found = torch.stack(losses, dim=1).numpy()
        return some(found), {"losses": found.size}

    return run, 1.0


def routing_scan(quick: bool) -> Timed:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    _, epochs = published.routing_size(quick)
    x, y, trained, stacks = published.routing_arrays(quick)
    mask = trained / trained.sum() / len(x)

    def loss(w: Any) -> Any:
        hidden = jnp.einsum("kgh,kihn->kign", w[1], w[0] @ x.T)
        out = jnp.einsum("kjtg,kign->kijnt", w[2], hidden)
        each = (((out - y) ** 2).sum(axis=(-2, -1)) * mask).sum(axis=(1, 2)) / 2
        return each.sum(), each

    @jax.jit
    def train(w: Any) -> Any:
        def epoch(w: Any, _: Any) -> Any:
            g, each = jax.grad(loss, has_aux=True)(w)
            return [v - published.STEP * d for v, d in zip(w, g, strict=True)], each

        return jax.lax.scan(epoch, w, None, epochs)[1]

    def run() -> Worked:
        found = np.asarray(train(list(stacks)))[::2].T
        return some(found), {"losses": found.size}

    return run, 1.0


# -- one reduced solve: SciPy -------------------------------------------------------------------------------


def reduced_scipy(quick: bool) -> Timed:
    """The three strengths of each mode, Eq. 13-14, by a user's method, to the tolerances of ours."""
    from scipy.integrate import solve_ivp

    epochs = 200 if quick else 5000
    x, y = np.eye(4), nr.tasks.structured.tree_features(3)
    times = published.STEP / 10 * np.arange(0, epochs + 1, epochs // 20)

    def run() -> Worked:
        s = np.linalg.svd(y.T @ x)[1] / 4

        def moves(t: float, b: np.ndarray) -> np.ndarray:
            b1, b2, b3 = b.reshape(3, 4)
            left = (s - b3 * b2 * b1 / 4) / published.DOMAINS
            return np.r_[b3 * b2 * left, published.DOMAINS * b3 * b1 * left, b2 * b1 * left]

        start, end = np.full(12, published.STRENGTH), (0, times[-1])
        found = solve_ivp(moves, end, start, "DOP853", times, rtol=1e-9, atol=1e-11).y
        return some(found.reshape(3, 4, -1)[1].T), {
            "strengths": found[:8].size
        }  # the last are those of the first layer

    return run, 1.0


# -- a ReLU network: a JAX scan ------------------------------------------------------------------------------


def relu_scan(dtype: str) -> Any:
    def prepare(quick: bool) -> Timed:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", dtype == "float64")
        x, y, start, epochs = published.relu_data(quick)
        x, y = x.astype(dtype), y.astype(dtype)

        def loss(w: Any) -> Any:
            hidden = jnp.maximum(x @ w[0].T, 0)
            return 0.5 * ((hidden @ w[1].T - y) ** 2).sum(), hidden

        def epoch(w: Any, _: Any) -> Any:
            (value, _), g = jax.value_and_grad(loss, has_aux=True)(w)
            return [v - published.LR * d for v, d in zip(w, g, strict=True)], value

        @jax.jit
        def train(w: Any) -> Any:
            def ten(w: Any, _: Any) -> Any:
                w, first = epoch(w, None)
                hidden = loss(w)[1]
                w, rest = jax.lax.scan(epoch, w, None, 9)
                return w, (jnp.append(first, rest), hidden)

            w, (losses, hidden) = jax.lax.scan(ten, w, None, epochs // 10)
            return jnp.append(losses.ravel()[1:], loss(w)[0]), hidden

        def run() -> Worked:
            w = [start[e].astype(dtype) for e in ("x->h1", "h1->y")]
            losses, hidden = (np.asarray(v) for v in train(w))
            return some(losses), {"losses": losses.size, "activity": hidden.size}

        return run, 1.0

    return prepare
