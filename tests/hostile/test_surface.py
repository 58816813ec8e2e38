"""Every argument of every public function, replaced by wrong or odd values, drawn by a seeded generator.

The oracle: such a value is refused with a `ValueError` of bounded length, or the call returns in time, and
what it returns is not NaN, where the function does not say in words when it is.
"""

import random
import signal
from types import ModuleType

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import LONGEST
from tests.hostile.surface import CALLS, START, XOR, odd_values, one_run

SEED, DRAWS = 40, 10
LONGEST_CALL = 60  # seconds on a busy machine
NAN_IS_TOLD = {  # "nan if never", "nan where it diverged" and the like stand in their documentation
    "half_time", "learning_time", "crossing", "last_crossing", "chain_time", "separability_time",
    "drawn_distance", "stopping_time", "plateau_share", "power_law_exponent", "error_rate",
    "concentration", "cosine", "cosine_similarity", "group_strengths", "kernel_change", "kernel_turn",
    "off_diagonal_share", "gram", "squared_distances", "distance_moved", "share_within",
    "domain_similarity", "unit_sizes",
}  # fmt: skip


OWN_FAULT = {("crossing", "y", int)}  # a function of the user's own raises what it likes


def drawn(name: str) -> list[tuple[str, int]]:
    """Arguments of a function, each with the place of a value among the odd ones."""
    rng = random.Random(f"{SEED} {name}")
    return [(rng.choice(list(CALLS[name][1])), rng.randrange(len(odd_values()))) for _ in range(DRAWS)]


def numbers(found):
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, (list, tuple)):
        for part in found:
            yield from numbers(part)
    elif isinstance(found, (float, np.floating, np.ndarray)) and np.asarray(found).dtype.kind == "f":
        yield found


def too_late(*_):
    raise AssertionError(f"takes more than {LONGEST_CALL} s")


def refused_or_right(name: str, argument: str, place: int) -> None:
    function, right = CALLS[name]
    if any(own[:2] == (name, argument) and odd_values()[place] is own[2] for own in OWN_FAULT):
        return
    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(LONGEST_CALL)
    try:
        found = function(**{**right, argument: odd_values()[place]})
    except ValueError as refused:
        found = str(refused)
    finally:
        signal.alarm(0)
    assert not isinstance(found, str) or len(found) <= LONGEST + 10
    if name not in NAN_IS_TOLD:
        assert not any(np.isnan(part).any() for part in numbers(found))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CALLS))
def test_odd_values_are_refused_or_right(name):
    for argument, place in drawn(name):
        refused_or_right(name, argument, place)


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CALLS))
def test_all_odd_values_are_refused_or_right(name):
    for argument in CALLS[name][1]:
        for place in range(len(odd_values())):
            refused_or_right(name, argument, place)


def test_an_unreachable_cluster_is_refused_and_leaves_no_folder(tmp_path):
    with pytest.raises(nr.errors.InputError, match="cluster must be the address of a Dask scheduler, got"):
        nr.sweep(one_run, over={"std": [0.1]}, out=tmp_path / "sweep", cluster="nonsense://127.0.0.1:1")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("samples", [1, 3, 4])
def test_independent_samples_have_all_patterns(samples):
    """The oracle: each of them alone, by a linear program."""
    x = np.random.default_rng(samples).normal(size=(samples, 4))
    found = nr.relu.implementable_patterns(x)
    assert len(np.unique(found, axis=0)) == 2**samples
    assert all(nr.relu.implementable(pattern, x) for pattern in found)
    assert not found[0].any()


def test_rates_whose_speed_overflows_end_at_once():
    run = nr.flow(XOR, START, t1=0.1, save=2, rates=nr.Rates(decay=1e160))
    assert run.status is nr.Status.DIVERGED
    assert run.stats["steps"] < 10


@pytest.mark.parametrize("draws", [10**6])
def test_too_many_draws_are_refused_with_the_hours(draws, monkeypatch):
    monkeypatch.setattr(nr.errors, "LONGEST_CALL", 1e-3)
    with pytest.raises(nr.errors.InputError, match=r"draws must be fewer, got 1000000: .* hours"):
        nr.expected_learning_time(XOR, "gaussian", 0.1, 0.3, draws=draws, tolerance=0.05)


# What one is handed; what draws into axes of the user's own; what reads files, or follows a user's model.
LEFT_OUT = {
    "Node", "Reduction", "Status", "Trajectory", "Weights", "lab", "separability_crossover", "random_frame",
    "FixedPoints", "Saddle", "Visits", "Discovery", "Imitation", "Maxima", "Pathways", "Race", "World",
    "Comparison", "Fit", "FixedPoint", "Record", "State", "jacobian", "roots", "record", "follow_pair",
    "fit_recorded", "cifar10", "digits", "mnist", "domain_features", "on_each_domain", "patch_encoder",
    "figure", "gif", "key", "label", "legend_below", "logarithmic", "matrix", "points", "runs", "save",
    "save_animation", "shades", "sized", "style", "theory",
}  # fmt: skip


def test_every_public_function_is_called_or_left_out_with_a_reason():
    modules = {"nr": nr} | {n: getattr(nr, n) for n in nr.__all__ if isinstance(getattr(nr, n), ModuleType)}
    public = {(m, n): getattr(module, n) for m, module in modules.items() for n in module.__all__}
    faults = {
        key for key, value in public.items() if isinstance(value, type) and issubclass(value, Exception)
    }
    asked = {key for key, value in public.items() if callable(value)} - faults
    missing = {n for m, n in asked if n not in CALLS and f"{m}.{n}" not in CALLS}
    assert missing == LEFT_OUT
