"""The numbers of a page computed again from the network itself, by other means than `nr.watch` takes."""

import copy

import numpy as np
import torch


def check(watch, model, start):
    """Print each number of the page beside the same by hand; `start` is the network before training."""
    inputs = watch.network.inputs
    with torch.no_grad():
        outputs = [m.eval()(inputs).double().numpy() for m in (start, model)]
    print("by hand:")
    for name, said, found in (
        *_modes(watch, outputs),
        *_representations(watch, model),
        *_regime(watch, model, start),
        *_branches(watch, model, outputs[1]),
    ):
        print(f"  {name}: page {said:.6g}, by hand {found:.6g}")
    if watch.domains is not None:
        _new_readouts(watch)


def _modes(watch, outputs):
    """Shares at start and end, from a singular value decomposition of the probes."""
    ds = watch.modes().data
    seen = [torch.softmax(torch.tensor(o), 1).numpy() if watch.loss != "squared" else o for o in outputs]
    u, s, vt = np.linalg.svd(watch.y.T @ watch.x / len(watch.x))
    for k in (0, 1, 2):
        if k < len(ds.mode):
            yield f"strength of mode {k + 1}", float(ds.strength[k]), s[k]
            for when, out in zip((0, -1), seen, strict=True):
                share = u[:, k] @ (out.T @ watch.x / len(watch.x)) @ vt[k] / s[k]
                yield (
                    f"share of mode {k + 1} at {'start' if when == 0 else 'end'}",
                    float(ds.share[when, k]),
                    share,
                )


def _representations(watch, model):
    """Correlation of distances at the last layer, pair by pair."""
    ds, layer = watch.representations().data, watch.network.layers[-1]
    seen = []
    handle = model.get_submodule(layer).register_forward_hook(lambda *call: seen.append(call[2]))
    with torch.no_grad():
        model(watch.network.inputs)
    handle.remove()
    h = watch.network.pick(layer, seen[0]) if watch.network.pick else seen[0]
    h = h.reshape(len(h), -1).double().numpy()
    keep = ds.probe.values
    theory, measured = [], []
    for a, i in enumerate(keep):
        for j in keep[:a]:
            dx, dy = (np.linalg.norm(v[i] - v[j]) for v in (watch.x, watch.y))
            theory.append(dx * dy)
            measured.append(((h[i] - h[j]) ** 2).sum())
    yield f"correlation at {layer}", float(ds.correlation[-1]), np.corrcoef(theory, measured)[0, 1]


def _regime(watch, model, start):
    """Change of the tangent kernel from whole Jacobians."""
    regime = watch.regime()
    rng = np.random.default_rng(0)
    n, k = watch.y.shape
    probes = np.sort(rng.choice(n, min(n, 12), replace=False))
    along = np.eye(k) if k <= 8 else rng.standard_normal((8, k)) / 8**0.5
    kernels = []
    for m in (start, model):
        own = {name: p.detach() for name, p in m.named_parameters()}

        def outputs(weights, m=m):
            out = torch.func.functional_call(m, weights, (watch.network.inputs[probes],))
            return out @ torch.tensor(along.T, dtype=torch.float32)

        slopes = torch.func.jacrev(outputs)(own)
        rows = torch.cat([v.reshape(len(probes) * len(along), -1) for v in slopes.values()], 1).double()
        kernels.append((rows @ rows.T).numpy())
    change = np.linalg.norm(kernels[1] - kernels[0]) / np.linalg.norm(kernels[0])
    yield "change of the tangent kernel", regime.change, change
    both = [torch.cat([p.detach().ravel() for p in m.parameters()]).double() for m in (start, model)]
    yield (
        "distance moved",
        float(regime.data.distance_moved),
        float((both[1] - both[0]).norm() / both[0].norm()),
    )


def _branches(watch, model, outputs):
    """What a copy of the network without a branch lacks of mode 2."""
    if not hasattr(model, "blocks") or watch.loss != "squared":
        return
    ds = watch.branches().data
    u, s, vt = np.linalg.svd(watch.y.T @ watch.x / len(watch.x))
    for k, name in enumerate(ds.branch.values):
        less = copy.deepcopy(model)
        with torch.no_grad():
            for p in less.get_submodule(str(name)).parameters():
                p.zero_()
            lost = outputs - less(watch.network.inputs).double().numpy()
        found = u[:, 1] @ (lost.T @ watch.x / len(watch.x)) @ vt[1] / s[1]
        yield f"{name} carries of mode 2", float(ds.contribution[k, 1]), found


def _new_readouts(watch):
    """Accuracy of a new readout of the last layer, by steps of descent on one domain, on all domains."""
    h, names = torch.tensor(watch.snapshots.activity(watch.network.layers[-1])[-1]), np.unique(watch.domains)
    rows = {d: watch.domains == d for d in names}
    h = {d: h[r] - h[r].mean(0) for d, r in rows.items()}
    y = {d: torch.tensor(watch.y[r].argmax(1)) for d, r in rows.items()}
    for own in names:
        for steps in (1, 10, 1000):
            w = torch.zeros(h[own].shape[1], watch.y.shape[1], requires_grad=True)
            for _ in range(steps):
                (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(h[own] @ w, y[own]), w)
                w = (w - 0.1 * slope).detach().requires_grad_()
            right = {str(d): round(float(((h[d] @ w).argmax(1) == y[d]).float().mean()), 3) for d in names}
            print(f"  new readout learned on domain {own}, {steps} steps: accuracy by domain {right}")
