"""The work of a request, as a generator of answers that can be dropped at any step."""

from __future__ import annotations

from collections.abc import Iterator

from neuralrace.errors import InputError
from neuralrace.laboratory.positions import systems
from neuralrace.laboratory.protocol import Export, Exported, Problem, Simulate, Solve, Systems
from neuralrace.laboratory.saving import page
from neuralrace.laboratory.scenes import Said, answered


def answers(request: Solve | Simulate | Export) -> Iterator[Said | Systems | Problem]:
    """Everything that is answered to a request; an error of input becomes a `Problem`."""
    try:
        if isinstance(request, Export) and request.format == "html":
            yield Exported(id=request.id, format="html", text=page(request.scene))
        else:
            yield from answered(request)
            if isinstance(request, Solve) and (found := systems(request)) is not None:
                yield found
    except InputError as error:
        yield Problem(id=request.id, text=str(error))
