"""How rows of outputs and of activity, one per probe, are read from what a model returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.errors import InputError

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
