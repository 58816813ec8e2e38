import numpy as np
import pytest

import neuralrace as nr


def test_parts_are_all_sums_once():
    train, test = (nr.tasks.modular_addition(5, 0.6, part).arrays for part in ("train", "test"))
    x, y = (np.concatenate(v) for v in zip(train, test, strict=True))
    assert len(train[0]) == 15
    a, b = x[:, :5].argmax(axis=1), x[:, 5:].argmax(axis=1)
    assert sorted(zip(a.tolist(), b.tolist(), strict=True)) == [(i, j) for i in range(5) for j in range(5)]
    assert (y.argmax(axis=1) == (a + b) % 5).all()
    assert (x.sum(axis=1) == 2).all()
    assert (y.sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "modulus must be at least 2"),
        ((5, 1.0), "share must be less than 1"),
        ((5, 0.01), "share must leave sums"),
        ((5, 0.5, "all"), "part must be one of train, test"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(nr.errors.InputError, match=message):
        nr.tasks.modular_addition(*arguments)
