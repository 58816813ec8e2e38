"""Named branches and domains: contributions against the maps of pathways, sharing as built."""

import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.apps.insight.branches import readout_transfer
from neuralrace.apps.insight.modes import data_modes, linear_share
from neuralrace.errors import InputError

RNG = np.random.default_rng(0)
X = np.sqrt(12) * np.linalg.qr(RNG.normal(size=(12, 3)))[0]
S = np.array([3.0, 2.0, 1.0])


def two_branches(params, x):
    hidden = x @ params["left"]["a"]
    return hidden @ params["left"]["b"] + x @ params["right"], {"hidden": hidden}


def weights():
    draw = np.random.default_rng(1)
    return {
        "left": {"a": draw.normal(size=(3, 5)), "b": draw.normal(size=(5, 3))},
        "right": draw.normal(size=(3, 3)),
    }


def watched(**options):
    seen = nr.watch(two_branches, X, X * S, **options)
    params = weights()
    seen(0, params)
    params["right"] = params["right"] + 1
    seen(1, params)
    return seen, params


@pytest.mark.parametrize("branches", [["left", "right"], {"left": ["left.a", "left.b"], "right": "right"}])
def test_contributions_are_those_of_the_maps(branches):
    seen, params = watched(branches=branches)
    ds = seen.branches().data
    left = np.diag(params["left"]["a"] @ params["left"]["b"]) / S  # inputs are white, so modes are axes
    right = np.diag(params["right"]) / S
    np.testing.assert_allclose(ds.contribution, [left, right], rtol=1e-4)
    np.testing.assert_allclose(ds.share, left + right, rtol=1e-4)
    assert ds.branch.values.tolist() == ["left", "right"]


def test_usage_by_domain():
    """On the first domain only the left branch has inputs."""

    def model(params, x):
        return x[:, :2] @ params["left"] + x[:, 2:] @ params["right"], {"h": x}

    x = np.kron(np.eye(2), RNG.normal(size=(5, 2)))
    seen = nr.watch(model, x, x[:, :2] + x[:, 2:], branches=["left", "right"], domains=5 * ["a"] + 5 * ["b"])
    for k in (1.0, 2.0):
        seen.look(k, {"left": k * np.eye(2), "right": np.eye(2)})
    ds = seen.branches().data
    np.testing.assert_allclose(ds.usage, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(ds.common, np.eye(2), atol=1e-6)


def test_readouts_transfer_where_representations_are_shared():
    items = np.tile(np.eye(4), (2, 1))
    domains = np.repeat([0, 1], 4)
    code = RNG.normal(size=(4, 6))
    same = readout_transfer(np.vstack([code, code]), items, domains)
    np.testing.assert_allclose(same, 1)
    apart = readout_transfer(np.kron(np.eye(2), code), items, domains)
    np.testing.assert_allclose(np.diag(apart), 1)
    assert apart[0, 1] == apart[1, 0] == 0
    # By hand, for a code that is shared in part and has an offset: one step of descent, then a correlation.
    part = np.vstack([code, 5 + code + RNG.normal(size=code.shape)])
    said = []
    for own in (slice(0, 4), slice(4, 8)):
        weights = sum(
            np.outer(h - part[own].mean(0), z - 0.25) for h, z in zip(part[own], np.eye(4), strict=True)
        )
        guess = part[4:] @ weights
        said.append(np.corrcoef((guess - guess.mean(0)).ravel(), (np.eye(4) - 0.25).ravel())[0, 1] ** 2)
    assert readout_transfer(part, items, domains)[0, 1] == pytest.approx(min(1, said[0] / said[1]))


def test_what_should_generalise_is_said():
    labels = np.arange(12) % 2

    def model(params, x):
        hidden = x @ params["a"]
        return hidden @ params["b"], {"hidden": hidden}

    seen = nr.watch(model, X, X * S, domains=labels)
    draw = np.random.default_rng(1)
    for k in (1.0, 2.0):
        seen.look(k, {"a": draw.normal(size=(3, 8)), "b": draw.normal(size=(8, 3))})
    answer = seen.branches()
    assert "should generalise to another in 2 of 2 pairs" in answer.theory
    assert "contribution" not in answer.data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branches": "left"}, "branches must be a list"),
        ({"domains": [0, 1]}, "one label per sample, 12"),
        ({"domains": np.zeros(12)}, "at least two"),
        ({"domains": np.arange(12) % 2, "items": [1, 2]}, "items must have"),
    ],
)
def test_wrong_branches_and_domains(options, message):
    with pytest.raises(InputError, match=message):
        nr.watch(two_branches, X, X * S, **options)


def test_branches_must_be_there():
    with pytest.raises(InputError, match="'middle'"):
        watched(branches=["middle"])[0].branches()
    with pytest.raises(InputError, match="neither branches nor domains"):
        watched()[0].branches()


def test_modes_of_a_whole_data_set():
    x = RNG.normal(size=(90, 4))
    y = x @ RNG.normal(size=(4, 3)) + 0.5 * RNG.normal(size=(90, 3))
    whole, parts = data_modes([(x, y)]), data_modes([(x[:40], y[:40]), (x[40:], y[40:])])
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(two), rtol=1e-9)
    np.testing.assert_allclose(whole.strength, np.linalg.svd(y.T @ x / 90)[1], rtol=1e-12)
    centred = [v - v.mean(axis=0) for v in (x, y)]
    left = centred[1] - centred[0] @ np.linalg.lstsq(centred[0], centred[1])[0]
    r2 = 1 - (left**2).sum() / (centred[1] ** 2).sum() * 89 / 85
    assert whole.explained == pytest.approx(r2)
    assert np.isnan(linear_share([(x[:4], y[:4])]))  # as many inputs as samples

    def model(params, x):
        return x @ params

    seen = nr.watch(model, x[:20], y[:20])
    for k in (0.1, 1.0):
        seen.look(k, k * jnp.ones((4, 3)))
    found = seen.modes([(x[:40], y[:40]), (x[40:], y[40:])]).data
    np.testing.assert_allclose(found.strength, whole.strength)
    with pytest.raises(InputError, match="more than once"):
        seen.modes(iter([(x, y)]))
    with pytest.raises(InputError, match="4 inputs and 3 outputs"):
        seen.modes([(x[:, :2], y)])
