"""Known rates, noisy series, fitted rates: `python tests/universality/recovery.py CASES SEED SPREAD`."""

import sys
import time

import numpy as np

from neuralrace import universality
from neuralrace.errors import InputError


def case(rng, outputs=3, spread=0.5):
    """Rates over six orders of magnitude, a start from tiny to large, times that cover learning."""
    rate_h, rate_y = 10 ** rng.uniform(-3, 3, 2)
    dx, dy = 10 ** rng.uniform(-0.5, 0.5, 2)
    # Encoder and decoder start at a common scale, each within a factor of ten or so, beside where they end.
    small = 10 ** rng.uniform(-6, 0.5)
    if np.isinf(spread):  # dh2 and dy2 unrelated: decoders up to a million times larger than encoders
        encoder, decoder = small, 10 ** rng.uniform(-6, 0.5) / small
    else:
        encoder, decoder = small * 10 ** (spread * rng.normal(size=2))
    dh2 = np.sqrt(rate_h / rate_y) * dx * dy * encoder
    dy2 = dy**2 * encoder * decoder
    cosine = rng.normal(size=outputs)
    cosine = cosine[0] / np.linalg.norm(cosine)
    given = dh2, dy2, dy2 - cosine * dy * np.sqrt(dy2), dx, dy, rate_h, rate_y
    t = np.geomspace(1e-4, 1e4, 4000) / (np.sqrt(rate_h * rate_y) * dx * dy)
    path = universality.solve(t, *given)
    moving = [np.abs(v - v[-1]) > 0.05 * np.abs(v - v[-1]).max() for v in path]
    end = t[max(np.flatnonzero(m).max() for m in moving)]
    return np.linspace(0, 1.5 * end, 200), given


def recover(cases, seed=0, noise=0.01, spread=0.5):
    """Per case: true and fitted rates (2,), interval (2, 2), seconds."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(cases):
        t, given = case(rng, 1 if i % 2 else 3, spread)
        series = [
            v + noise * np.abs(v).max() * rng.normal(size=v.shape) for v in universality.solve(t, *given)
        ]
        began = time.perf_counter()
        try:
            found = universality.fit(t, *series, *given[3:5])
        except InputError as error:
            out.append((given, str(error), None, time.perf_counter() - began))
            continue
        took = time.perf_counter() - began
        out.append((given, found, (found.rate_h_interval, found.rate_y_interval), took))
    return out


def summary(results):
    fitted = [r for r in results if r[2] is not None]
    true = np.array([r[0][5:] for r in fitted])
    found = np.array([(r[1].rate_h, r[1].rate_y) for r in fitted])
    bounds = np.array([r[2] for r in fitted])
    inside = (bounds[..., 0] <= true) & (true <= bounds[..., 1])
    return np.abs(found / true - 1), inside, len(results) - len(fitted)


if __name__ == "__main__":
    results = recover(int(sys.argv[1]), seed=int(sys.argv[2]), spread=float(sys.argv[3]))
    miss, inside, refused = summary(results)
    print("refused", refused)
    print(
        "median relative error of rate_h, rate_y", np.median(miss, 0), "90%", np.quantile(miss, 0.9, axis=0)
    )
    print("inside the 95% interval", inside.mean(0))
    print(
        "fits that miss by more than the noise", sum(r[1].error > 0.012 for r in results if r[2] is not None)
    )
    print("seconds per fit, warm: median, largest", *np.quantile([r[3] for r in results[1:]], [0.5, 1]))
