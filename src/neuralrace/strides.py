"""Descent in strides: gradients at some steps only, and a line through two of them in between.

Descent is the difference equation `s(n + 1) = s(n) - lr g(n)`. From a node n, with r the change of g per step
over the stride before, a stride of m steps is `s(n + m) = s(n) - lr (m g + m (m - 1) / 2 r)`. This is the
method of Adams and Bashforth, summed over steps instead of integrated: it converges to descent with this
learning rate, not to the flow, and strides of one step are descent itself. At the next node the change of g
turns out to be r', and the stride has missed `d = -lr m (m - 1) / 2 (r' - r)`. That sets the length of
strides, and so does stability: m lr times the largest eigenvalue of the Hessian, found by power iteration
along the way, must be below 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

LONGEST = 64  # steps of a stride
_STABLE = 0.7  # at most this is m lr times the largest eigenvalue
_SHARE = 1 / 60  # of the error allowed in all, that one stride may make
_SIDEWAYS = 0.15  # weight of what is missed in directions that change neither norm nor loss: it averages out
_SAFETY = 3
# Of what corrects the steps: rounding it changes them by 1e-8, and memory limits the speed.
_ROUGH = jnp.float32
_JUDGED = 3  # nodes from one decision on the length of strides to the next
_SHARPENED = 32  # nodes from one step of the power iteration to the next


def follow(
    loss: Callable[[Any], Any], mask: Any, keep: Callable[[Any], Any], steps: int,
    start: Any, saves: Any, lr: Any, error: Any,
) -> Any:  # fmt: skip
    """Descent from `start` of the weights where `mask` is 1 (None: all); `keep(s)` is saved at steps `saves`.

    Returns the last step, what was kept, the loss at every step, the number of gradients and an estimate of
    the largest error of these losses, relative to the initial loss: `3 |g| |D|`. D sums what strides missed,
    and grows as the weights do, or as the gradient up to its highest: what was missed while they were small
    is a share of what they become.
    """
    dtype = start.dtype
    tiny = jnp.finfo(dtype).tiny
    ticks = jnp.arange(LONGEST, dtype=dtype)

    def slope(s: Any) -> Any:
        value, g = jax.value_and_grad(loss)(s)
        return value, g if mask is None else g * mask

    def node(c: Any, until: Any) -> Any:
        value, g = slope(c["s"])
        n, s, m = c["n"], c["s"], c["m"].astype(dtype)
        first = n == 0
        initial = jnp.where(first, jnp.maximum(value, tiny), c["initial"])
        per_step = jnp.where(first, 0, 1 / jnp.maximum(m, 1))
        bend = (g - c["foreseen"].astype(dtype)) * per_step
        rate = c["rate"].astype(dtype) + bend
        steep = jnp.vdot(g, g)
        fall = -lr * (steep - (steep - c["steep"]) * per_step / 4)  # of the loss per step
        between = _cubic(ticks * per_step, m, c["value"], c["fall"], value, fall)
        between = jnp.where(ticks > 0, between, c["value"])  # even if this one is not finite
        losses = jax.lax.dynamic_update_slice(c["losses"], between, (n - c["m"],)).at[n].set(value)

        def judge() -> Any:
            size, steepest = jnp.maximum(jnp.vdot(s, s), tiny), jnp.maximum(c["steepest"], steep)
            # In units of the weights, and of the initial residual, whose square the loss is.
            bent = jnp.stack([
                jnp.abs(jnp.vdot(s, bend)) / size,
                jnp.abs(jnp.vdot(g, bend)) / jnp.sqrt(jnp.maximum(value, tiny) * initial),
                _SIDEWAYS * jnp.sqrt(jnp.vdot(bend, bend) / size),
            ])  # fmt: skip
            longer = 0.9 * (_SHARE * error / jnp.maximum(lr * m**2 / 2 * bent.max(), tiny)) ** (1 / 3)
            wanted = (c["wanted"] * jnp.clip(longer, 0.5, 2)).astype(c["wanted"].dtype)
            stated = _SAFETY * jnp.sqrt(steep * jnp.sum(c["missed"].astype(dtype) ** 2)) / initial
            grown = jnp.maximum(_ratio(size, c["size"]), _ratio(steepest, c["steepest"]))
            stated = jnp.maximum(c["stated"], stated)
            return jnp.clip(wanted, 1, LONGEST), stated, size, steepest, jnp.sqrt(grown)

        wanted, stated, size, steepest, grown = jax.lax.cond(
            c["gradients"] % _JUDGED == 2,  # the third node is the first that knows a bend
            judge,
            lambda: (c["wanted"], c["stated"], c["size"], c["steepest"], jnp.ones((), dtype)),
        )
        left = until - n
        ahead = -(-left // -(-left // jnp.minimum(wanted, c["stable"])))  # equal strides up to the next save
        k = ahead.astype(dtype)
        going = jnp.isfinite(value)
        return c | {
            "n": jnp.where(going, n + ahead, n),
            "m": ahead,
            "s": s - lr * (k * g + k * (k - 1) / 2 * rate),
            "foreseen": (g + k * rate).astype(_ROUGH),
            "rate": rate.astype(_ROUGH),
            "missed": (grown * c["missed"] - lr * m * (m - 1) / 2 * bend).astype(_ROUGH),
            "wanted": wanted,
            "stated": stated,
            "size": size,
            "steepest": steepest,
            "steep": steep,
            "value": value,
            "fall": fall,
            "initial": initial,
            "losses": losses,
            "gradients": c["gradients"] + 1,
            "going": going,
        }

    def sharpen(c: Any) -> Any:
        _, turned = jax.jvp(lambda s: slope(s)[1], (c["s"],), (c["probe"],))
        sharpness = jnp.sqrt(_ratio(jnp.vdot(turned, turned), jnp.vdot(c["probe"], c["probe"])))
        stable = jnp.clip(_STABLE / jnp.maximum(lr * sharpness, tiny), 1, LONGEST).astype(c["stable"].dtype)
        probe = jnp.where(sharpness > 0, turned / sharpness, c["probe"])
        return c | {"probe": probe, "stable": stable, "due": c["gradients"] + _SHARPENED}

    def interval(c: Any, until: Any) -> Any:
        here = lambda c: (c["n"] < until) & c["going"]  # noqa: E731

        def some(c: Any) -> Any:
            c = jax.lax.cond(c["gradients"] >= c["due"], sharpen, lambda c: c, c)
            return jax.lax.while_loop(
                lambda c: here(c) & (c["gradients"] < c["due"]), partial(node, until=until), c
            )

        c = jax.lax.while_loop(here, some, c)
        return c, keep(c["s"])

    zero, count, none = jnp.zeros((), dtype), jnp.zeros((), int), jnp.zeros(start.shape, _ROUGH)
    c = {
        "n": count, "m": count, "wanted": count + 1, "stable": count + 1, "gradients": count, "due": count,
        "s": start, "foreseen": none, "rate": none, "missed": none, "going": jnp.array(True),
        "probe": start if mask is None else start * mask, "losses": jnp.zeros(steps + 1 + LONGEST, dtype),
        "size": jnp.vdot(start, start), "steepest": zero, "steep": zero, "value": zero, "fall": zero,
        "initial": zero, "stated": zero,
    }  # fmt: skip
    # One node more than there are steps, where the loss after the last of them is found.
    c, kept = jax.lax.scan(interval, c, jnp.append(saves, steps + 1))
    end = jnp.minimum(c["n"], steps)
    losses = jnp.where(jnp.arange(steps + 1) <= end, c["losses"][: steps + 1], jnp.nan)
    return end, jax.tree.map(lambda v: v[:-1], kept), losses, c["gradients"], c["stated"]


def _ratio(new: Any, old: Any) -> Any:
    return jnp.where(old > 0, new / jnp.where(old > 0, old, 1), 1)


def _cubic(t: Any, m: Any, a: Any, da: Any, b: Any, db: Any) -> Any:
    """Between values a at 0 and b at 1, with slopes m da and m db there."""
    return (1 + 2 * t) * (1 - t) ** 2 * a + t**2 * (3 - 2 * t) * b + m * t * (1 - t) * ((1 - t) * da - t * db)
