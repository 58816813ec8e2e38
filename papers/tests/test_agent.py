import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace_papers.agent import Agent, learn, live

AGENTS = [Agent(), Agent(signals="total", forgetting=0.0), Agent(signals="total", layers=1)]


def slow_velocity(agent, w):
    """Trial by trial, choice by choice, by finite differences of the losses that the talk gives."""
    step, found = 1e-6, np.zeros(agent.size)
    for side in (0, 1):
        for c in agent.contrasts:
            x = np.array([c * (side == 0), c * (side == 1), 1.0])

            def values(v, x=x):
                m = v[:3, None] * v[3:].reshape(3, 2) if agent.layers == 2 else v.reshape(3, 2)
                return x[:2] @ m[:2], x[2] * m[2]

            stim, const = values(w)
            odds = np.exp(agent.beta * (stim + const))
            for chosen in (0, 1):
                reward = float(chosen == side)
                for k in range(agent.size):
                    if agent.signals == "total" or k < 3:
                        which = (1.0, 1.0)
                    else:
                        which = (1.0, 0.0) if k < 7 else (0.0, 1.0)

                    def loss(shift, k=k, which=which, chosen=chosen, reward=reward, values=values):
                        s, b = values(w + shift * np.eye(agent.size)[k])
                        return (reward - which[0] * s[chosen] - which[1] * b[chosen]) ** 2 / 2

                    slope = (loss(step) - loss(-step)) / (2 * step)
                    found[k] -= odds[chosen] / odds.sum() * slope / (2 * len(agent.contrasts))
    return found - agent.forgetting * w


@pytest.mark.parametrize("agent", AGENTS, ids=["three", "total", "shallow"])
def test_velocity_descends_the_talks_losses(agent):
    w = np.random.default_rng(0).standard_normal(agent.size) / 2
    with jax.enable_x64(True):
        found = np.asarray(agent(jax.numpy.asarray(w)))
    np.testing.assert_allclose(found, slow_velocity(agent, w), atol=1e-8)


def test_accuracy_is_the_softmax_of_values():
    agent = Agent(beta=3.0)
    w = np.random.default_rng(1).standard_normal((4, 9))
    for one, found in zip(w, agent.accuracy(w, 0.5), strict=True):
        for side, x in enumerate(([0.5, 0, 1], [0, 0.5, 1])):
            odds = np.exp(3 * np.array(x) @ (one[:3, None] * one[3:].reshape(3, 2)))
            assert np.isclose(found[side], odds[side] / odds.sum())


def test_learning_is_the_same_whether_the_start_is_saved_or_not():
    start = 0.1 * np.random.default_rng(0).standard_normal((2, 9))
    whole, late = learn(Agent(), start, [0.0, 1.0, 5.0]), learn(Agent(), start, [1.0, 5.0])
    assert np.array_equal(whole.weights["w"][:, 0], start)
    assert np.allclose(whole.weights["w"][:, 1:], late.weights["w"], atol=1e-7)
    assert np.allclose(whole.loss[:, 1:], late.loss, atol=1e-7)


def test_agents_that_draw_trials_follow_the_mean():
    agent = Agent(beta=4.0)
    start = np.tile(0.3 * np.random.default_rng(2).standard_normal(9), (200, 1))
    drawn = live(agent, start, rate=0.01, trials=1000, save=10)
    mean = learn(agent, start[:1], np.linspace(0, 10, 11)).weights["w"][0, 1:]
    error = drawn.std(axis=0) / np.sqrt(200)
    assert np.abs(drawn.mean(axis=0) - mean)[error > 0].max() < 0.02
    assert (error[-1] > 0).all()
    assert np.abs(mean[-1] - start[0]).max() > 0.1


def test_trials():
    x, rewards = Agent(contrasts=(0.2, 1.0)).trials
    assert x.tolist() == [[0.2, 0, 1], [1, 0, 1], [0, 0.2, 1], [0, 1, 1]]
    assert rewards.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Agent(contrasts=(0.0, 1.0)), "contrasts must be above 0"),
        (lambda: Agent(contrasts=(2.0,)), "contrasts must be above 0 and at most 1"),
        (lambda: Agent(beta=0), "beta must be greater"),
        (lambda: Agent(forgetting=-1), "forgetting must be at least 0"),
        (lambda: Agent(signals="two"), "signals must be one of three, total"),
        (lambda: Agent(layers=3), "layers must be 1 or 2"),
        (lambda: Agent(layers=1), "signals must be 'total' with one layer"),
        (lambda: learn(Agent(), np.zeros((2, 6)), [0, 1]), "starts must have shape"),
        (lambda: learn(Agent(), np.zeros((2, 9)), [1.0, 0.0]), "t must hold"),
        (lambda: live(Agent(), np.zeros((2, 9)), 0.1, 10), "save must be at most"),
    ],
)
def test_wrong_input_is_refused(wrong, message):
    with pytest.raises(nr.errors.InputError, match=message):
        wrong()
