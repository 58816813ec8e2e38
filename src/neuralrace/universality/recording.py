"""Distances of representations and outputs of a user's own network while it learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, flag, integer, number
from neuralrace.universality.fitting import Fit, fit


class Record:
    """What `record` returns: call it during training, then read the series or `fit` them.

    Attributes
    ----------
    t : ndarray, shape (times,)
        Times of the calls, in the caller's own unit.
    dh2, dy2 : ndarray, shape (times, pairs)
        Squared distances of the two representations and of the two outputs of each pair.
    w : ndarray, shape (times, pairs)
        Alignment: dy2 less the product of output difference and target difference.
    loss : ndarray, shape (times, pairs)
        One half of the mean squared error over the two samples of each pair (Eq. 1).
    dx, dy : ndarray, shape (pairs,)
        Distances of the two inputs and of the two targets, not squared.
    pairs : ndarray of int, shape (pairs, 2)
        Numbers of the samples.
    layer : str or None
        Name of the layer of a torch module.

    Examples
    --------
    >>> from neuralrace.universality import record
    >>> x = np.array([[0.0], [1.0]])
    >>> rec = record(lambda scale, x: (scale * x, scale * x), x, y=x)
    >>> for t in range(3):
    ...     rec(t, t / 2)
    >>> rec.dh2[:, 0].tolist(), rec.loss[:, 0].tolist()
    ([0.0, 0.25, 1.0], [0.25, 0.0625, 0.0])
    """

    def __init__(
        self, measure: Callable[..., Any], x: np.ndarray, y: np.ndarray, pairs: Any, layer: Any
    ) -> None:
        self._measure, self._targets, self.layer = measure, y, layer
        self.pairs = _pairs(pairs, len(x))
        first, second = self.pairs.T
        self.dx = np.linalg.norm(x[second] - x[first], axis=1)
        self.dy = np.linalg.norm(y[second] - y[first], axis=1)
        if (self.dx == 0).any():
            i, j = self.pairs[np.argmin(self.dx)]
            raise InputError(
                f"samples {i} and {j} have identical inputs, so they can have no different representations; "
                "choose other pairs"
            )
        self._rows: list[np.ndarray] = []
        self._times: list[float] = []

    def __call__(self, t: float, *state: Any) -> None:
        """Measure now, at time t.

        Parameters
        ----------
        t : float
            The time, in any unit; it must increase from call to call.
        *state
            For a function: what it takes before the inputs, such as the parameters.
        """
        t = number("t", t)
        if self._times and t <= self._times[-1]:
            raise InputError(f"t must increase from call to call; got {t:g} after {self._times[-1]:g}")
        hidden, output = (np.asarray(v, np.float64) for v in self._measure(*state))
        n = len(self._targets)
        for name, v in (("representation", hidden), ("output", output)):
            if v.ndim == 0 or v.shape[0] != n:
                raise InputError(
                    f"the {name} must have one row per sample, {n}; its shape is {v.shape}; "
                    "`pick` chooses the right array and axis order of a layer"
                )
            if not np.isfinite(v).all():
                raise InputError(
                    f"the network diverged: its {name} at t = {t:g} is not finite; "
                    "what was recorded before is kept; try a smaller learning rate"
                )
        hidden, output = hidden.reshape(n, -1), output.reshape(n, -1)
        if output.shape != self._targets.shape:
            raise InputError(f"y must have the {output.shape[1]} outputs per sample that the model has, "
                             f"got {self._targets.shape[1]}")  # fmt: skip
        first, second = self.pairs.T
        dh, dy, goal = (v[second] - v[first] for v in (hidden, output, self._targets))
        square = ((output - self._targets) ** 2).sum(1)
        dy2 = (dy**2).sum(1)
        w = (dy * (dy - goal)).sum(1)
        self._rows.append(np.stack([(dh**2).sum(1), dy2, w, (square[first] + square[second]) / 4]))
        self._times.append(t)

    def _series(self, i: int) -> np.ndarray:
        return np.array([r[i] for r in self._rows]).reshape(len(self._rows), len(self.pairs))

    @property
    def t(self) -> np.ndarray:
        """Times of the calls, `(times,)`."""
        return np.array(self._times)

    @property
    def dh2(self) -> np.ndarray:
        """Squared distance of the two representations of each pair, `(times, pairs)`."""
        return self._series(0)

    @property
    def dy2(self) -> np.ndarray:
        """Squared distance of the two outputs of each pair, `(times, pairs)`."""
        return self._series(1)

    @property
    def w(self) -> np.ndarray:
        """Alignment of each pair, `dy2 - (output difference) . (target difference)`, `(times, pairs)`."""
        return self._series(2)

    @property
    def loss(self) -> np.ndarray:
        """One half of the mean squared error over the two samples of each pair (Eq. 1), `(times, pairs)`."""
        return self._series(3)

    def fit(self, pair: int = 0, *, loss: bool = False, level: float = 0.95, strict: bool = True) -> Fit:
        """Effective learning rates of one pair: `universality.fit` of its series.

        Parameters
        ----------
        pair : int, default 0
            Its place among the pairs.
        loss : bool, default False
            Whether to fit the loss too, for the rate of the mean output.
        level, strict
            As in `universality.fit`.

        Returns
        -------
        Fit
            Rates per unit of `t`.
        """
        if integer("pair", pair, 0) >= len(self.pairs):
            raise InputError(f"pair must be below {len(self.pairs)}, the number of pairs; got {pair}")
        dh2, dy2, w, last = (v[:, pair] for v in (self.dh2, self.dy2, self.w, self.loss))
        extra = last if flag("loss", loss) else None
        dx, dy = self.dx[pair], self.dy[pair]
        return fit(self.t, dh2, dy2, w, dx, dy, loss=extra, level=level, strict=strict)


def record(
    model: Any, x: Any, y: Any, *, layer: str | int | None = None,
    pairs: Sequence[tuple[int, int]] | str | None = None, pick: Callable[[Any], Any] | None = None,
) -> Record:  # fmt: skip
    """Watch how the representations of samples x with targets y move while `model` learns.

    Call the result with the time in your own training loop: `rec(t)`, or `rec(t, params)` for a function. A
    module is measured in evaluation mode, without gradients, and left as it was.

    Parameters
    ----------
    model : torch.nn.Module or callable
        The network, or a function that returns a representation and an output for (params, x), each with
        one row per sample.
    x, y : array_like or torch.Tensor, shape (samples, ...)
        Inputs and targets. A function gets x as it is given here.
    layer : str or int, optional
        Of a module: the name of a submodule, or its place among the modules without children in the order
        in which they run (negative from the end); by default the one half way.
    pairs : sequence of (int, int), or "all", optional
        Which samples to compare; needed where there are more than two.
    pick : callable, optional
        Of a module: takes the representation from what the layer returns (its first tensor by default),
        samples first.

    Returns
    -------
    Record
        To be called with the time; holds the series.

    Examples
    --------
    >>> from neuralrace.universality import record
    >>> def model(weights, x):
    ...     hidden = x @ weights[0]
    ...     return hidden, hidden @ weights[1]
    >>> rec = record(model, np.eye(2), [[0.0], [1.0]])
    >>> rec(0.0, (np.eye(2), np.ones((2, 1))))
    >>> rec.dh2.tolist(), rec.dy2.tolist(), rec.loss.tolist()
    ([[2.0]], [[0.0]], [[0.25]])
    """
    if _is_module(model):
        torch = _torch()
        inputs = x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x))
        flat = samples("x", inputs.detach().cpu().numpy())
        measure, layer = _module(torch, model, _like(torch, inputs, model), layer, pick)
        targets = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else y
    else:
        if not callable(model):
            raise InputError(f"model must be a torch.nn.Module or a function, got {type(model).__name__}")
        for name, v in (("layer", layer), ("pick", pick)):
            if v is not None:
                raise InputError(
                    f"{name} is for a torch.nn.Module; a function returns (representation, output)"
                )
        flat, measure, targets = samples("x", x), _function(model, x), y
    targets = samples("y", targets)
    if len(targets) != len(flat):
        raise InputError(f"y must have {len(flat)} rows, as many as x, got {len(targets)}")
    return Record(measure, flat, targets, pairs, layer)


def samples(name: str, value: Any) -> np.ndarray:
    """One row of numbers per sample, of which there must be two or more."""
    out = array(name, value)
    if out.ndim == 0 or len(out) < 2:
        raise InputError(f"{name} must hold at least two samples, got {len(out) if out.ndim else 'a number'}")
    return out.reshape(len(out), -1)


def _pairs(pairs: Any, n: int) -> np.ndarray:
    if pairs is None and n > 2:
        raise InputError(f'pairs must say which of the {n} samples to compare, as [(0, 1), ...] or "all"')
    if pairs is None or (isinstance(pairs, str) and pairs == "all"):
        return np.array(list(combinations(range(n), 2)))
    out = array("pairs", pairs, (None, 2))
    if not len(out) or not np.isin(out, np.arange(n)).all() or (out[:, 0] == out[:, 1]).any():
        raise InputError(f"pairs must hold pairs of different sample numbers from 0 to {n - 1}")
    return out.astype(int)


def _function(model: Callable[..., Any], x: Any) -> Callable[..., Any]:
    def measure(*state: Any) -> Any:
        out = model(*state, x)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise InputError(f"the function must return (representation, output), got {type(out).__name__}")
        return out

    return measure


def _is_module(model: Any) -> bool:
    """Without importing torch, which takes seconds and may be missing."""
    return any(c.__name__ == "Module" and c.__module__.split(".")[0] == "torch" for c in type(model).__mro__)


def _torch() -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        message = (
            "recording a torch.nn.Module needs torch, which is not installed: pip install neuralrace[torch]"
        )
        raise ImportError(message) from error
    return torch


def _like(torch: Any, x: Any, model: Any) -> Any:
    """x on the device of the model and, where it holds fractions, of its precision."""
    weight = next(model.parameters(), None)
    if weight is None:
        return x
    return x.to(weight.device, weight.dtype if x.is_floating_point() else None)


def _module(torch: Any, model: Any, x: Any, layer: Any, pick: Any) -> tuple[Callable[[], Any], str]:
    def run(hooks: dict[Any, Callable[..., None]]) -> Any:
        modes = [(m, m.training) for m in model.modules()]
        handles = [m.register_forward_hook(hook) for m, hook in hooks.items()]
        model.eval()
        try:
            with torch.no_grad():
                return model(x)
        finally:
            for handle in handles:
                handle.remove()
            for m, training in modes:
                m.training = training

    name = _layer(model, run, layer)
    watched = model.get_submodule(name)

    def measure() -> Any:
        seen: list[Any] = []
        output = run({watched: lambda *call: seen.append(call[2])})
        if not seen:
            raise InputError(f"layer {name!r} did not run when the model did")
        hidden = pick(seen[-1]) if pick else _tensor(torch, seen[-1])
        return tuple(v.detach().cpu().double().numpy() for v in (hidden, _tensor(torch, output)))

    return measure, name


def _layer(model: Any, run: Any, layer: Any) -> str:
    names = {m: n for n, m in model.named_modules() if n}
    if isinstance(layer, str):
        if layer not in names.values():
            listed = ", ".join(list(names.values())[:12]) + (", ..." if len(names) > 12 else "")
            raise InputError(f"layer must be a submodule of the model ({listed}); got {layer!r}")
        return layer
    order: list[str] = []
    run({m: lambda m, *_: order.append(names[m]) for m in names if not list(m.children())})
    order = list(dict.fromkeys(order))
    if len(order) < 2:
        raise InputError("the model has no hidden layer: it runs fewer than two modules")
    at = (len(order) - 1) // 2 if layer is None else integer("layer", layer, -len(order))
    if at >= len(order):
        raise InputError(f"layer must be below {len(order)}, the number of modules that run; got {at}")
    return order[at]


def _tensor(torch: Any, value: Any) -> Any:
    """The first tensor in what a module returned."""
    if isinstance(value, torch.Tensor):
        return value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    for item in items:
        found = _tensor(torch, item)
        if found is not None:
            return found
    return None


__all__ = ["Record", "record"]
