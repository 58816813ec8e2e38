"""What all tests share."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_dropped() -> Iterator[None]:
    """Compiled programs take memory maps, of which a process has some 65,000: too few for all modules."""
    yield
    jax.clear_caches()
