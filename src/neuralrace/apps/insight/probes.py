"""Samples as a watch takes them: rows of inputs, and of targets or one-hot labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.errors import InputError, array, detached, refuse_masked, sequence, short

PART = {
    "layer": ". `pick` takes the right part of what a layer returns",
    "outputs": ", samples first. `output` says which part of what the model returns it is",
}
MOST_CLASSES = 1000  # of more outputs, those of classes that no probe has are taken together


def arrays_in(value: Any) -> list[Any]:
    """All arrays or tensors of floating-point numbers in what a model returned."""
    if hasattr(value, "dtype") and hasattr(value, "reshape"):
        return [value] if "float" in str(value.dtype) else []
    items = list(value.values()) if isinstance(value, Mapping) else value
    return [v for item in items for v in arrays_in(item)] if isinstance(items, (tuple, list)) else []


@dataclass
class Reading:
    """A probe is a sample, or, where `length` is not 0, a place in a sequence."""

    samples: int
    width: int = 0  # outputs per probe, as far as targets tell
    classes: np.ndarray | None = None  # labels that are told apart, in order; None for other targets
    merged: bool = False  # whether all other classes are one
    output: int | str | None = None  # which part of what a model returns is its output
    length: int = 0  # of each sequence
    places: np.ndarray | None = None  # of the probes, in all sequences one after the other

    def fits(self, value: Any) -> bool:
        """Whether there is a row for each probe."""
        shape = tuple(getattr(value, "shape", ()))
        if not self.length:
            return shape[:1] == (self.samples,)
        return shape[:2] == (self.samples, self.length) or shape[:1] == (self.samples * self.length,)

    def rows(self, name: str, value: Any) -> Any:
        """A row for each probe, in an array of the same kind."""
        if value is None:
            raise InputError(f"{name} gave nothing: did it not run when the model did, or return None?")
        if not self.fits(value):
            row = f"{self.samples} sequences of {self.length}" if self.length else f"{self.samples} probes"
            raise InputError(
                f"{name} must have one row for each of {row}; its shape is "
                f"{tuple(getattr(value, 'shape', ()))}{PART.get(name, PART['layer'])}"
            )
        if not self.length:
            return value.reshape(self.samples, -1)
        return value.reshape(self.samples * self.length, -1)[self.places]

    def outputs(self, returned: Any, logsumexp: Callable[..., Any], join: Callable[..., Any]) -> Any:
        """Outputs (probes, outputs) of what a model returned, by two functions of its library.

        Of many classes those without a probe are taken together, so that probabilities stay the same.
        """
        out = self.rows("outputs", self._chosen(returned))
        if self.classes is None and out.shape[1] != self.width:
            hint = "; class labels must be whole numbers" if self.width == 1 else ""
            raise InputError(
                f"y must have the {out.shape[1]} outputs per probe that the model has, got {self.width}{hint}"
            )
        if self.classes is None:
            return out
        if self.classes[-1] >= out.shape[1]:
            has, hint = out.shape[1], "; of one output: numbers 0.0 and 1.0, and loss='cross_entropy'"
            raise InputError(f"y must hold labels below {has}, the outputs of the model; got "
                             f"{self.classes[-1]}{hint * (has == 1)}")  # fmt: skip
        if out.shape[1] <= MOST_CLASSES:
            return out
        self.merged = True
        others = np.setdiff1d(np.arange(out.shape[1]), self.classes)
        return join((out[:, self.classes], logsumexp(out[:, others], 1)[:, None]), 1)

    def _chosen(self, returned: Any) -> Any:
        """The one part of what a model returned that is its output."""
        named = isinstance(returned, Mapping)
        output = "logits" if self.output is None and named and "logits" in returned else self.output
        if output is not None:
            items: Any = list(returned.values()) if named and not isinstance(output, str) else returned
            try:
                returned = items[output]
            except (KeyError, IndexError, TypeError):
                there = list(returned) if named else type(returned).__name__
                raise InputError(
                    f"output must be an index or key of what the model returns ({there}), got {output!r}"
                ) from None
        found = arrays_in(returned)
        if len(found) < 2 or output is not None:
            return found[0] if found else returned
        rows = [v for v in found if self.fits(v)]
        right = [v for v in rows if self.rows("outputs", v).shape[1] == self.width]
        if len(right) != 1 and len(rows) != 1:
            raise InputError(
                f"the model returns {len(found)} arrays, of shapes {[tuple(v.shape) for v in found]}; which "
                f"is its output ({self.width} numbers per probe)? nr.watch(..., output=), an index or a key"
            )
        return (right or rows)[0]

    def part(self, probes: Sequence[int]) -> tuple[np.ndarray, Reading]:
        """The samples of some probes, and how those probes are read from them alone."""
        at = np.asarray(probes)
        if not self.length or self.places is None:
            return at, replace(self, samples=len(at))
        samples, index = np.unique(self.places[at] // self.length, return_inverse=True)
        places = index * self.length + self.places[at] % self.length
        return samples, replace(self, samples=len(samples), places=places)


MOST_ONE_HOT = 100_000  # tokens times places, that are shown one-hot
MOST_TARGETS = 100_000  # classes whose labels are targets of a squared error
LARGEST = 1e70  # of data, of which squares are multiplied
IGNORED = -100  # label of a place of a sequence that asks for nothing, as of PyTorch


def is_labels(y: np.ndarray) -> bool:
    """Whether targets are labels, one per sample; otherwise an error where they are no numbers."""
    if y.dtype.kind not in "iub" or y.ndim != 1:
        return False
    if y.min(initial=0) < 0:
        raise InputError("y must hold class labels from 0 on, or targets as floating-point numbers")
    return True


def targets_of(y: Any) -> tuple[np.ndarray, str]:
    """Targets, one row per sample, and the loss that they suggest; labels as one-hot rows."""
    values = as_numbers("y", y)
    if is_labels(values):
        return one_hot(values, np.unique(values)), "cross_entropy"
    found = moderate("y", array("y", values))
    if not found.size:
        raise InputError(f"y must not be empty, got shape {found.shape}")
    return found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1), "squared"


def as_numbers(name: str, value: Any) -> np.ndarray:
    """Whole numbers of an array or tensor as they are, other real ones as float64."""
    refuse_masked(name, value)
    try:
        found = np.asarray(sequence(name, value, "numbers") if isinstance(value, range) else detached(value))
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths, or a sparse tensor
        found = np.empty(0, object)
    return found if found.dtype.kind in "iub" else array(name, value)


def moderate(name: str, values: np.ndarray) -> np.ndarray:
    """Values of which squares can be multiplied."""
    largest = np.abs(values).max(initial=0)
    if largest > LARGEST:
        raise InputError(f"{name} must be below {LARGEST:g}, as squares are taken; got {largest:.3g}")
    return values


def as_labels(name: str, value: Any) -> np.ndarray:
    """Numbers or texts, one for each sample."""
    try:
        found = np.asarray(sequence(name, value, "numbers") if isinstance(value, range) else value)
    except ValueError:
        found = np.empty(0, object)
    if found.dtype.kind not in "iubfUS":
        raise InputError(f"{name} must hold a number or text for each sample, got {short(value)}")
    return found


def one_hot(values: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Rows with a one where each of the values (samples, ...) is among some names."""
    found = values.reshape(*values.shape, 1) == names
    return found.reshape(len(values), -1).astype(float)


def vocabulary(x: np.ndarray, places: int) -> np.ndarray:
    """Tokens that are shown one-hot: all up to the largest, or of a large vocabulary those that occur."""
    top = int(x.max(initial=0)) + 1
    names = np.arange(top) if top * places <= MOST_ONE_HOT else np.unique(x)
    if len(names) * places > MOST_ONE_HOT:
        raise InputError(
            f"x holds whole numbers up to {top - 1}, which are taken for tokens, {len(names)} of them at "
            f"{places} places; give fewer, or floating-point numbers"
        )
    return names


@dataclass
class Probes:
    """Samples, or places of sequences, on which a network is looked at."""

    samples: np.ndarray  # that the network is given
    reading: Reading
    of: np.ndarray  # the sample of each probe
    tokens: np.ndarray | None  # that inputs show one-hot
    total: int  # samples there were


def choose_probes(
    x: np.ndarray, y: np.ndarray, tokens: bool, loss: str | None, most: int
) -> tuple[np.ndarray, np.ndarray, str, Probes]:
    """Inputs and targets of at most so many probes by a random choice, equal targets side by side; the loss.

    Labels of the shape of tokens `x` are those of each place of a sequence.
    """
    sequences = y.dtype.kind in "iu" and y.ndim == 2 and x.shape[:2] == y.shape
    sequences = sequences and (tokens or loss == "cross_entropy")
    length = y.shape[1] if sequences else 0
    samples = some(len(x), max(8, -(-2 * most // length)) if length else most)
    of, inputs, labels, places = samples, x[samples], y[samples], None
    if sequences:
        asked = np.flatnonzero(labels.ravel() != IGNORED)
        if len(asked) < 2:
            raise InputError(f"y must hold at least two labels that are not {IGNORED}, got {len(asked)}")
        places = asked[some(len(asked), most)]
        of, labels = samples[places // length], labels.ravel()[places]
        inputs = inputs.reshape(len(samples) * length, -1)[places]
    reading = Reading(len(samples), length=length)
    if is_labels(labels if sequences else y):
        loss, top = loss or "cross_entropy", int(y.max()) + 1
        if loss == "squared" and top > MOST_TARGETS:
            raise InputError(f"y must hold labels below {MOST_TARGETS:,} for a squared error, got {top - 1}")
        classes = np.arange(top) if top <= MOST_CLASSES or loss == "squared" else np.unique(labels)
        reading.classes, targets = classes if loss == "cross_entropy" else None, one_hot(labels, classes)
    else:
        loss, targets = loss or "squared", targets_of(labels)[0]
    order, reading.width = np.lexsort(targets.T), targets.shape[1]
    names = vocabulary(x, inputs[0].size) if tokens else None
    rows = moderate("x", array("x", inputs)) if names is None else one_hot(inputs, names)
    if (rows == rows[0]).all():
        raise InputError(f"x must hold different samples; all {len(rows)} probes are the same")
    if places is None:
        samples = samples[order]
    else:
        reading.places = places[order]
    rows = rows.reshape(len(rows), -1)[order]
    return rows, targets[order], loss, Probes(samples, reading, of[order], names, len(x))


def some(n: int, most: int) -> np.ndarray:
    """A random choice of n things, in order; all where they are few."""
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False)) if n > most else np.arange(n)


class Batches:
    """Batches of inputs and targets as arrays of rows, as often as they are asked for."""

    def __init__(
        self, data: Iterable[tuple[Any, Any]], inputs: int, outputs: int, tokens: np.ndarray | None,
        reading: Reading,
    ):  # fmt: skip
        if not hasattr(data, "__iter__") or iter(data) is data:
            raise InputError(
                "data must be a list or a data loader of batches, as it is gone through more than once; "
                f"got {short(data)}"
            )
        self.data, self.inputs, self.outputs, self.tokens = data, inputs, outputs, tokens
        self.reading = reading

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        empty = True
        for pair in self.data:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise InputError(f"data must hold pairs of inputs and targets, got {short(pair)}")
            given, labels = as_numbers("x", pair[0]), as_numbers("y", pair[1])
            empty = False
            if self.reading.length and given.shape[:2] == labels.shape:
                asked = labels.ravel() != IGNORED
                given, labels = given.reshape(labels.size, -1)[asked], labels.ravel()[asked]
            if self.tokens is None:
                rows = moderate("x", given.astype(float))
            elif np.isin(given, self.tokens).all():
                rows = one_hot(given, self.tokens)
            else:
                raise InputError("data must hold no tokens but those up to the largest in x")
            rows, targets = rows.reshape(len(rows), -1), self._targets(labels)
            if (rows.shape[1], targets.shape[1]) != (self.inputs, self.outputs) or len(rows) != len(targets):
                raise InputError(
                    f"data must have {self.inputs} inputs and {self.outputs} outputs in each batch, as the "
                    f"probes have; got shapes {rows.shape} and {targets.shape}"
                )
            yield rows, targets
        if empty:
            raise InputError("data must hold at least one batch, got none")

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Targets as those of the probes."""
        if not is_labels(y):
            return targets_of(y)[0]
        classes = self.reading.classes if self.reading.merged else None
        if classes is None:
            return one_hot(y, np.arange(max(self.outputs, y.max(initial=0) + 1)))
        found = one_hot(y, classes)
        return np.hstack([found, 1 - found.sum(axis=1, keepdims=True)])
