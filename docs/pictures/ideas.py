"""Draws one picture for each page on an idea, `docs/pictures/NAME.svg`, and one for slides.

Run as `python docs/pictures/ideas.py [NAME ...]` from the project's root; `make pictures` draws all.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.plot import BLACK, BLUE, COLOURS, GREEN, ORANGE, PAGE, figure, style
from neuralrace_papers import zoo

TIME = "flow time (tau = 1)"


def network() -> Figure:
    """Gates by context, and learning by flow and by steps."""
    contexts = {"context 1: some open": 1.0, "context 2: some closed": 0.0}
    places = {"x": (0, 0.5), "all": (1, 0.9), "some": (1, 0.1), "y": (2, 0.5)}
    edges = [("x", "all"), ("all", "y"), ("x", "some"), ("some", "y")]
    fig, axes = figure(1, 3, width=PAGE, height=2.0)
    for ax, (title, gate) in zip(axes, contexts.items(), strict=False):
        for source, target in edges:
            (x0, y0), (x1, y1) = places[source], places[target]
            closed = "some" in (source, target) and not gate
            colour = "#BBBBBB" if closed else ORANGE if "some" in (source, target) else BLUE
            ax.plot([x0, x1], [y0, y1], color=colour, lw=2, ls=":" if closed else "-", zorder=0)
        for name, (x, y) in places.items():
            colour = "#BBBBBB" if name == "some" and not gate else BLACK
            box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour}
            ax.text(x, y, name, ha="center", va="center", bbox=box, color=colour)
        ax.set(xlim=(-0.35, 2.35), ylim=(-0.15, 1.15), title=title)
        ax.axis("off")
    graph = nr.Graph({"x": 2, "all": 20, "some": 20, "y": 2}, edges)
    x, y = [[1, 1], [1, -1], [1, 1], [1, -1]], [[1, 1], [1, -1], [1, 0], [1, 0]]
    task = nr.Task(graph, x, y, gates={"some": [1, 1, 0, 0]})
    w = nr.init.gaussian(graph, 0.05)
    flow = nr.flow(task, w, t1=10.0)
    axes[2].plot(flow.t, flow.loss, color=BLACK, label="flow")
    for lr, colour in ((0.1, GREEN), (1.0, ORANGE)):
        steps = nr.descend(task, w, lr=lr, steps=round(10 / lr), save=round(min(10 / lr, 25)) + 1)
        axes[2].plot(steps.t, steps.loss, "o", color=colour, label=f"steps of {lr:g}")
    axes[2].set(xlabel=TIME, ylabel="mean loss", ylim=(0, None), title="flow and descent")
    axes[2].legend()
    return fig


def reduction() -> Figure:
    """Routing: the two classes of the theory and the weights of the network."""
    task = nr.tasks.routing(domains=5, trained=3)
    theory = nr.reduce(task)
    sol = theory.solve(strengths=0.1, t1=120.0)
    net = nr.flow(task, {e: w[0] for e, w in sol.weights.items()}, t1=120.0, save=sol.t)
    strengths = nr.mode_strengths(net, task)
    fig, (left, right) = figure(1, 2, width=PAGE, height=2.2)
    left.plot(sol.t, sol.loss, color=BLUE, label=f"{theory.n_modes * theory.n_classes} equations")
    left.plot(net.t[::10], net.loss[::10], "o", color=BLACK, label=f"{_size(net)} weights")
    left.set(xlabel=TIME, ylabel="mean loss", ylim=(0, None))
    left.legend()
    for k, (name, edges) in enumerate(zip(("outer layers", "shared layer"), theory.classes, strict=True)):
        right.plot(sol.t, sol.strengths[:, 0, k], color=COLOURS[k], label=f"{name}, theory")
        right.plot(net.t[::10], strengths[edges[0]][::10, 0], "o", color=COLOURS[k], label=f"{name}, network")
    right.set(xlabel=TIME, ylabel="strength of the first mode", ylim=(0, None))
    right.legend()
    return fig


def _size(run: nr.Trajectory) -> int:
    return sum(int(np.prod(w.shape[1:])) for w in run.weights.values())


def starts() -> Figure:
    """Predicted and simulated loss from random weights of three sizes."""
    task = nr.tasks.hierarchy(4, graph=nr.Graph.chain([8, 100, 100, 15]))
    fig, ax = figure(width=4.6, height=2.4)
    for gain, colour in zip((0.3, 0.6, 1.0), COLOURS, strict=False):
        w = nr.init.xavier(task.graph, gain=gain, seed=0)
        sol = nr.reduce(task, weights=w).solve(t1=40.0)
        net = nr.flow(task, w, t1=40.0, save=25)
        ax.plot(sol.t, sol.loss, color=colour, label=f"gain {gain:g}")
        ax.plot(net.t, net.loss, "o", color=colour)
    ax.set(xlabel=TIME, ylabel="mean loss", ylim=(0, None), title="lines: predicted, dots: networks")
    ax.legend()
    return fig


def exact() -> Figure:
    """Chains of several depths, and the two gatings of exclusive or with a hint."""
    t = np.linspace(0, 25, 300)
    fig, (left, right) = figure(1, 2, width=PAGE, height=2.2)
    for depth, colour in zip((1, 2, 3, 4), COLOURS, strict=False):
        label = f"{depth} layer{'s' * (depth > 1)}"
        left.plot(t, nr.exact.chain(t, 1.0, a0=1e-2, depth=depth), color=colour, label=label)
    left.set(xlabel=TIME, ylabel="product of the weights", title="nr.exact.chain")
    left.legend()
    delta = np.linspace(0.3, 1.5, 100)
    for gating, colour in (("linear", BLUE), ("xor", ORANGE)):
        time = nr.exact.separability_time(0.1, delta, gating, a0=1e-3)
        right.plot(delta, time, color=colour, label=gating)
    right.axvline(nr.exact.separability_crossover(), color=BLACK, ls=":", label="equal growth")
    right.set(xlabel="size of the hint", ylabel="time to loss 0.1", title="nr.exact.separability_time")
    right.legend()
    return fig


def relu() -> Figure:
    """On which samples units of trained ReLU networks are active, for a weak and a strong hint."""
    fig, axes = figure(1, 2, width=PAGE, height=1.9)
    for ax, delta in zip(axes, (0.5, 1.2), strict=True):
        net = nr.relu.train(*nr.tasks.separability(delta).arrays, [40], std=1e-4, lr=0.02, steps=1500, save=4)
        sizes = nr.unit_sizes(net.weights["x->h1"][-1], net.weights["h1->y"][-1])
        gates = net.gates(-1)[0][:, np.argsort(-sizes)]
        ax.imshow(gates, cmap="Blues", aspect="auto", interpolation="none", vmax=1.4)
        way = "one sample each" if delta < 0.8 else "two samples each"
        ax.set(title=f"hint {delta:g}: units take {way}", xlabel="unit, largest first", ylabel="sample")
        ax.set_yticks(range(4), ["1", "2", "3", "4"])
    return fig


def discovery() -> Figure:
    """Patterns that were found, and the distance for each number of clusters."""
    x, y = nr.tasks.contexts(3).arrays
    net = nr.relu.train(x, y, hidden=[200], std=1e-4, lr=4e-3, steps=1500, save=31)
    found = nr.relu.discover(net=net, max_clusters=5)
    fig, (left, right) = figure(1, 2, width=PAGE, height=2.1)
    left.imshow(found.patterns, cmap="Blues", aspect="auto", interpolation="none", vmax=1.4)
    for edge in (7.5, 15.5):
        left.axvline(edge, color=BLACK, lw=0.8)
    left.set(xlabel="sample; lines divide three contexts", ylabel="pattern", yticks=range(found.k))
    left.set(title="on which samples a pathway is open", yticklabels=[str(k + 1) for k in range(found.k)])
    right.plot(list(found.elbow), list(found.elbow.values()), "o-", color=BLUE)
    right.plot(found.k, found.elbow[found.k], "o", ms=9, mfc="none", color=ORANGE)
    right.set(xlabel="number of patterns", ylabel="distance from the ReLU network", ylim=(0, None))
    right.set_xticks(list(found.elbow))
    right.set_title("circle: the number that is chosen")
    return fig


def pathways() -> Figure:
    """Two pathways share a mode in shallow networks; in deep ones the first takes it."""
    t = np.linspace(0, 40, 200)
    fig, axes = figure(1, 3, width=PAGE, height=2.0, sharey=True)
    for ax, depth in zip(axes, (2, 3, 5), strict=True):
        k = nr.exact.pathways(t, 1.0, [depth, depth], [0.1, 0.03], sigma=0.4)
        for share, colour, name in zip(k, (BLUE, ORANGE), ("ahead", "behind"), strict=True):
            ax.plot(t, share, color=colour, label=name)
        ax.set(xlabel=TIME, title=f"{depth} layers each")
    axes[0].set_ylabel("carried by the pathway")
    axes[0].legend()
    return fig


def universality() -> Figure:
    """Two samples in a tanh network: measured distances and the fitted theory."""
    x, y = nr.tasks.two_points(dx2=1.0, dy2=0.5).arrays
    net = zoo.Network(depth=6, width=60, activation="tanh", gain=0.8)
    run = zoo.train(net, x, y, lr=0.05, steps=1500, seeds=[0])
    fit = nr.universality.fit_recorded(run)
    curves = fit.curves(run.t)
    shown = np.unique(np.geomspace(1, len(run.t) - 1, 60).astype(int))
    fig, ax = figure(width=4.6, height=2.3)
    half = net.half - 1
    for k, (name, label) in enumerate((("dh2", "representation"), ("dy2", "output"))):
        values = run.recorded[name][0]
        values = values[:, half] if values.ndim == 2 else values
        ax.plot(run.t, curves[k], color=COLOURS[k], label=f"{label}, theory")
        ax.plot(run.t[shown], values[shown], "o", color=COLOURS[k], label=f"{label}, network")
    ax.set(xlabel=TIME, ylabel="squared distance of two samples", xlim=(0, 12))
    ax.legend()
    return fig


def structure() -> Figure:
    """Distances of exclusive-or points: inputs, targets, and the end that theory says."""
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    shown = {
        "inputs": nr.measure.squared_distances(x),
        "targets": nr.measure.squared_distances(y[:, None]),
        "representation, theory": nr.universality.structure(x, y),
    }
    fig, axes = figure(1, 3, width=PAGE, height=2.1)
    names = ["00", "11", "01", "10"]
    for ax, (title, values) in zip(axes, shown.items(), strict=True):
        image = ax.imshow(values, vmin=0, vmax=2)
        ax.set(title=title, xticks=range(4), yticks=range(4), xticklabels=names, yticklabels=names)
    fig.colorbar(image, ax=axes[-1], label="squared distance")
    return fig


def landscape() -> Figure:
    """Fixed points of two linear layers: loss, and number of directions in which it falls."""
    task = nr.Task(nr.Graph.chain([2, 3, 2]), np.eye(2), np.diag([2.0, 1.0]))
    found = nr.landscape.fixed_points(task, nr.init.gaussian(task.graph, 1.0, seed=range(120)))
    negative, _ = nr.landscape.index(task, found.weights)
    loss = np.round(nr.loss(task, found.weights), 4)
    fig, ax = figure(width=4.2, height=2.3)
    ax.plot(negative, loss, "o", color=BLUE, ms=7)
    for saddle in sorted(set(zip(np.asarray(negative).tolist(), loss.tolist(), strict=True))):
        learned = {0.0: "both modes", 0.25: "the strong mode", 1.0: "the weak mode", 1.25: "nothing"}
        ax.annotate(
            f" {learned.get(saddle[1], '')}", saddle, va="center", xytext=(6, 0), textcoords="offset points"
        )
    ax.set(
        xlabel="directions in which the loss falls", ylabel="mean loss", title="what is learned at each point"
    )
    ax.set_xlim(-0.5, max(negative) + 2.5)
    return fig


def sweeps() -> Figure:
    """The sweep of the page, as its figure."""

    def one_run(scale: float, trained: int, seed: int) -> nr.Run:
        task = nr.tasks.routing(domains=4, trained=trained, hidden=(8, 8))
        return nr.Run(task, nr.init.orthogonal(task.graph, scale, seed=seed), t1=300.0, save=50)

    ds = nr.sweep(one_run, over={"scale": np.geomspace(0.05, 0.4, 4), "trained": [1, 2, 4]}, seeds=3)
    return nr.sweep_figure(ds, "half_time", against=["scale", "trained"])


def insight() -> Figure:
    """Modes of the data in a ReLU network that was watched."""
    import torch

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype("float32")
    y = (x * [2.0, 1.4, 0.9, 0.5]).astype("float32")
    model = torch.nn.Sequential(torch.nn.Linear(4, 40), torch.nn.ReLU(), torch.nn.Linear(40, 4))
    for weights in model.parameters():
        weights.data *= 0.2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watch = nr.watch(model, x, y)
    for step in range(600):
        watch.look(step) if step % 10 == 0 else None
        optimizer.zero_grad()
        (((model(torch.tensor(x)) - torch.tensor(y)) ** 2).sum(1).mean() / 2).backward()
        optimizer.step()
    share = watch.modes().data.share
    fig, ax = figure(width=4.6, height=2.3)
    for k, colour in zip(range(4), COLOURS, strict=False):
        ax.plot(share.step, share.isel(mode=k), color=colour, label=f"mode {k + 1}")
    ax.set(xlabel="step of training", ylabel="share of the mode that is learned")
    ax.legend()
    return fig


def slides() -> Figure:
    """The figure of the page on slides."""
    with style("slides"):
        return nr.reduce(nr.tasks.hierarchy(3)).solve(strengths=0.05, t1=40.0).plot()


IDEAS = (
    network, reduction, starts, exact, relu, discovery, pathways, universality, structure, landscape,
    sweeps, insight,
)  # fmt: skip

if __name__ == "__main__":
    folder, wanted = Path(__file__).parent, sys.argv[1:]
    with style():
        for draw in IDEAS:
            if not wanted or draw.__name__ in wanted:
                draw().savefig(folder / f"{draw.__name__}.svg", metadata={"Date": None})
    if not wanted or "slides" in wanted:
        slides().savefig(folder / "slides.png", dpi=70)
