"""What all tests share."""

import os
import random
from collections.abc import Generator, Iterator

import jax
import pytest
from hypothesis import Phase, settings

# Property tests draw new cases in every run. An example is mostly the seed of a generator, which has no
# simpler form, and each new shape is compiled: so examples are few, and failing ones are not made smaller.
settings.register_profile(
    "new-cases",
    max_examples=10,
    deadline=None,
    derandomize=False,
    print_blob=True,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
settings.load_profile("new-cases")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw one seed for all property tests; the workers of pytest-xdist inherit it in the environment."""
    if config.option.hypothesis_seed is None:
        drawn = str(random.SystemRandom().randrange(2**32))
        config.option.hypothesis_seed = os.environ.setdefault("SEED_OF_PROPERTY_TESTS", drawn)


def pytest_report_header(config: pytest.Config) -> str:
    return f"cases of this run are drawn again by --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With NEURALRACE_REQUIRE_BROWSER=1 tests of the lab, or of a page in a browser, must not be skipped."""
    report = yield
    of_a_page = "lab" in item.path.parts or "chrome" in getattr(item, "fixturenames", ())
    if report.skipped and of_a_page and os.environ.get("NEURALRACE_REQUIRE_BROWSER") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, but NEURALRACE_REQUIRE_BROWSER=1 forbids that: {call.excinfo}"
    return report


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_dropped() -> Iterator[None]:
    """Compiled programs take memory maps, of which a process has some 65,000: too few for all modules."""
    yield
    jax.clear_caches()
