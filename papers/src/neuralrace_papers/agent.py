"""A deep value network that learns to choose a side (the talk's deep RL network).

A trial shows a stimulus of some contrast left or right, beside a constant input. The value of each choice is
the sum of what the stimulus and what the constant input predict, `Q_tot = Q_stim + Q_const`. The choice is
drawn with probability `softmax(beta Q_tot)`, and earns a reward of 1 on the side of the stimulus. What the
talk does not say, and is assumed here, is in docs/developers/talk.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint

from neuralrace import Trajectory
from neuralrace.errors import InputError, array, choice, integer, number

INPUTS = ("left", "right", "constant")


@dataclass(frozen=True)
class Agent:
    """The task and the network of an agent; weights are one flat vector.

    Called with weights, it returns their velocity, the mean over trials and choices. All weights decay.

    Parameters
    ----------
    contrasts : tuple of float
        Of the stimuli, above 0 and at most 1; all are equally frequent.
    beta : float
        Sharpness of the choice, `softmax(beta Q_tot)`.
    forgetting : float
        Rate at which weights decay.
    signals : {"three", "total"}
        "three" is the talk's: cortical weights descend the squared total error; striatal ones that of the
        stimuli alone, or of the constant input alone, as if it had to predict all of the reward. With "total"
        all descend the squared total error.
    layers : int
        2: every input has a cortical weight a, and from there a striatal weight v to either choice; the
        associations are `a_i v_ij`. 1: one weight for each input and choice; `signals` must be "total".

    Examples
    --------
    >>> agent = Agent()
    >>> agent(jnp.zeros(agent.size)).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    contrasts: tuple[float, ...] = (0.06, 0.12, 0.25, 0.5, 1.0)
    beta: float = 10.0
    forgetting: float = 0.005
    signals: str = "three"
    layers: int = 2

    def __post_init__(self) -> None:
        c = array("contrasts", self.contrasts, (None,))
        if not len(c) or c.min() <= 0 or c.max() > 1:
            raise InputError(f"contrasts must be above 0 and at most 1, got {self.contrasts}")
        object.__setattr__(self, "contrasts", tuple(c.tolist()))
        number("beta", self.beta, above=0)
        number("forgetting", self.forgetting, least=0)
        choice("signals", self.signals, ("three", "total"))
        if integer("layers", self.layers) > 2:
            raise InputError(f"layers must be 1 or 2, got {self.layers}")
        if self.layers == 1 and self.signals == "three":
            raise InputError("signals must be 'total' with one layer, which has no striatum to teach apart")

    @property
    def size(self) -> int:
        """Number of weights."""
        return 9 if self.layers == 2 else 6

    @property
    def trials(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (left, right, constant) of all trials, `(n, 3)`, and rewards of both choices, `(n, 2)`."""
        c, off = np.array(self.contrasts), np.zeros(len(self.contrasts))
        x = np.concatenate([np.stack([c, off, off + 1], 1), np.stack([off, c, off + 1], 1)])
        return x, (x[:, :2] > 0).astype(float)

    def associations(self, w: Any) -> Any:
        """The value of either choice per unit of every input.

        Parameters
        ----------
        w : array, shape (..., size)
            Weights.

        Returns
        -------
        array, shape (..., 3, 2)
            Input by choice.
        """
        v = w[..., -6:].reshape(*w.shape[:-1], 3, 2)
        return w[..., :3, None] * v if self.layers == 2 else v

    def accuracy(self, w: Any, contrast: float) -> Any:
        """Probability of the correct choice.

        Parameters
        ----------
        w : array, shape (..., size)
            Weights.
        contrast : float
            Of the stimulus.

        Returns
        -------
        array, shape (..., 2)
            For a stimulus on the left, and on the right.
        """
        m = self.associations(w)
        ahead = contrast * (m[..., :2, 0] - m[..., :2, 1]) + (m[..., 2:, 0] - m[..., 2:, 1])
        return 1 / (1 + np.exp(-self.beta * ahead * np.array([1, -1])))

    def __call__(self, w: Any, data: Any = None) -> Any:
        x, rewards = (jnp.asarray(v, w.dtype) for v in self.trials)
        likely = jax.nn.softmax(self.beta * (x @ self.associations(w)), axis=-1)
        return jax.vmap(self.update, (None, 0, 0, 0))(w, x, rewards, likely).mean(axis=0)

    def loss(self, w: Any) -> Any:
        """Half the squared total error of the choice that is made, the mean over trials and choices.

        It may rise: the velocity descends it only where `signals` is "total", and does not differentiate the
        probabilities of the choices.

        Parameters
        ----------
        w : array, shape (size,)
            Weights.

        Returns
        -------
        scalar array
        """
        x, rewards = (jnp.asarray(v, w.dtype) for v in self.trials)
        values = x @ self.associations(w)
        likely = jax.nn.softmax(self.beta * values, axis=-1)
        return 0.5 * (likely * (rewards - values) ** 2).sum(axis=-1).mean()

    def update(self, w: Any, x: Any, reward: Any, chosen: Any) -> Any:
        """Change of the weights by one trial, per unit of learning rate.

        Parameters
        ----------
        w : array, shape (size,)
            Weights.
        x : array, shape (3,)
            Inputs: left, right and constant.
        reward : array, shape (2,)
            Of both choices.
        chosen : array, shape (2,)
            1 for the choice that was made, or the probability of each.

        Returns
        -------
        array, shape (size,)
        """
        part = x[:, None] * self.associations(w)
        stim, const = part[:2].sum(axis=0), part[2]
        total = chosen * (reward - stim - const)
        if self.layers == 1:
            return (x[:, None] * total).ravel() - self.forgetting * w
        a, v = w[:3], w[3:].reshape(3, 2)
        own = chosen * (reward - jnp.stack([stim, stim, const])) if self.signals == "three" else total
        taught = jnp.concatenate([x * (v @ total), ((a * x)[:, None] * own).ravel()])
        return taught - self.forgetting * w


def learn(agent: Agent, starts: Any, t: Any) -> Trajectory:
    """Learning by the mean over trials.

    Parameters
    ----------
    agent : Agent
        The task and the network.
    starts : array, shape (n, size)
        Initial weights of each run.
    t : array, shape (times,)
        Rising times to save, in units of trials times learning rate.

    Returns
    -------
    Trajectory
        `weights["w"]` of shape (n, times, size); `loss` (n, times) is `Agent.loss`.

    Examples
    --------
    >>> learn(Agent(), np.full((2, 9), 0.1), [0.0, 5.0]).weights["w"].shape
    (2, 2, 9)
    """
    w, t = array("starts", starts, (None, agent.size)), array("t", t, (None,))
    if len(t) < 2 or t[0] < 0 or (np.diff(t) <= 0).any():
        raise InputError("t must hold at least two rising times, none negative")
    late = int(t[0] > 0)  # a step of no length has no derivative
    with jax.enable_x64(True):
        path, loss = map(np.asarray, _learn(agent, jnp.asarray(w), jnp.append(jnp.zeros(late), t)))
    return Trajectory(t, loss[:, late:], {"w": path[:, late:]})


@partial(jax.jit, static_argnums=0)
def _learn(agent: Agent, starts: Any, t: Any) -> tuple[Any, Any]:
    """Weights and loss at the times, of which the first is 0."""

    def one(start: Any) -> tuple[Any, Any]:
        path = odeint(lambda w, _: agent(w), start, t, rtol=1e-8, atol=1e-10)
        return path, jax.vmap(agent.loss)(path)

    return jax.lax.map(one, starts)


def live(agent: Agent, starts: Any, rate: float, trials: int, save: int = 200, seed: int = 0) -> np.ndarray:
    """Learning of agents that draw stimuli and choices, and learn from each trial.

    Trial k is at the time `rate k` of `learn`.

    Parameters
    ----------
    agent : Agent
        The task and the network.
    starts : array, shape (n, size)
        Initial weights of each run.
    rate : float
        Learning rate.
    trials : int
        Number of trials.
    save : int
        Number of trials after which weights are saved, evenly spaced.
    seed : int
        Draws stimuli and choices.

    Returns
    -------
    ndarray, shape (n, save, size)
        Weights.

    Examples
    --------
    >>> live(Agent(), np.full((2, 9), 0.1), rate=0.05, trials=20, save=4).shape
    (2, 4, 9)
    """
    w, rate = array("starts", starts, (None, agent.size)), number("rate", rate, above=0)
    every = integer("trials", trials) // integer("save", save)
    if not every:
        raise InputError(f"save must be at most the number of trials, {trials}; got {save}")
    keys = jax.random.split(jax.random.key(integer("seed", seed, least=0)), len(w))
    with jax.enable_x64(True):
        return np.asarray(_live(agent, every, save, jnp.asarray(w), rate, keys))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _live(agent: Agent, every: int, save: int, starts: Any, rate: Any, keys: Any) -> Any:
    xs, rewards = (jnp.asarray(v) for v in agent.trials)

    def trial(w: Any, key: Any) -> Any:
        shown, chose = jax.random.split(key)
        k = jax.random.randint(shown, (), 0, len(xs))
        picked = jax.random.categorical(chose, agent.beta * (xs[k] @ agent.associations(w)))
        return w + rate * agent.update(w, xs[k], rewards[k], jax.nn.one_hot(picked, 2)), None

    def block(w: Any, key: Any) -> Any:
        w, _ = jax.lax.scan(trial, w, jax.random.split(key, every))
        return w, w

    return jax.vmap(lambda w, key: jax.lax.scan(block, w, jax.random.split(key, save))[1])(starts, keys)
