"""Images, and routing between transformations of them (neural_race section 5 and appendix D)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import errors
from neuralrace.errors import InputError, affordable, array, choice, flag, integer, sequence, short
from neuralrace.files import read_npz
from neuralrace.graph import Graph
from neuralrace.interrupts import uninterrupted
from neuralrace.task import Blocks, Context, Task
from neuralrace.tasks.domains import route_moments, trained_pairs
from neuralrace.tasks.structured import chain_or

CLASSES = 10
_KINDS = ("train", "test")
PARTS = ("x_train", "y_train", "x_test", "y_test")  # arrays of an image file
FOLDER = "NEURALRACE_DATA"  # environment variable: where image files lie
Labelled = tuple[np.ndarray, np.ndarray]
Encoder = Callable[[np.ndarray], np.ndarray]


def digits(part: str = "train", centred: bool = False, hidden: int = 128, graph: Graph | None = None) -> Task:
    """The 1797 digits of 8 x 8 pixels that come with scikit-learn; every fifth is for `part="test"`.

    Parameters
    ----------
    part : {"train", "test"}
        1438 or 359 images.
    centred : bool
        Subtract the mean image of the training part. Pixels lie in 0..1 before that.
    hidden : int
        Neurons of the hidden layer.
    graph : Graph, optional
        A graph of your own; by default a chain with one hidden layer.

    Returns
    -------
    Task
        Inputs `(images, 64)`, targets `(images, 10)`, one-hot.

    Examples
    --------
    >>> import neuralrace as nr
    >>> x, y = nr.tasks.digits("test").arrays
    >>> x.shape, y.shape
    ((359, 64), (359, 10))
    """
    errors.need_extra("sklearn", "sklearn")
    from sklearn.datasets import load_digits

    x, labels = (np.asarray(v) for v in load_digits(return_X_y=True))
    test = np.arange(len(x)) % 5 == 4
    return _chosen(part, centred, (x[~test] / 16, labels[~test]), (x[test] / 16, labels[test]), hidden, graph)


def mnist(
    path: str | Path | None = None,
    part: str = "train",
    centred: bool = False,
    hidden: int = 128,
    graph: Graph | None = None,
) -> Task:
    """Handwritten digits of 28 x 28 pixels.

    Parameters
    ----------
    path : str or Path, optional
        An npz file with `x_train`, `y_train`, `x_test`, `y_test`, or a folder with `mnist.npz`. Pixels there
        run from 0 to 255, labels from 0 to 9. If not given, the folder in the environment variable
        NEURALRACE_DATA, else a download from OpenML.
    part : {"train", "test"}
        60,000 or 10,000 images.
    centred, hidden, graph
        As in `digits`.

    Returns
    -------
    Task
        Inputs `(images, 784)`, pixels in 0..1 unless centred; targets `(images, 10)`, one-hot.

    Examples
    --------
    Black images in place of the true ones:

    >>> import neuralrace as nr
    >>> from tempfile import TemporaryDirectory
    >>> x, y = np.zeros((5, 28, 28)), np.arange(5)
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    ...     nr.tasks.mnist(folder).arrays[0].shape
    (5, 784)
    """
    return _chosen(part, centred, *_stored("mnist", "mnist_784", 60_000, path), hidden, graph)


def cifar10(
    path: str | Path | None = None,
    part: str = "train",
    centred: bool = False,
    hidden: int = 128,
    graph: Graph | None = None,
) -> Task:
    """Colour images of 32 x 32 pixels, channels last.

    Parameters
    ----------
    path : str or Path, optional
        A file as for `mnist`, or a folder with `cifar10*.npz`. If not given, the folder in the environment
        variable NEURALRACE_DATA, else a download from OpenML.
    part : {"train", "test"}
        50,000 or 10,000 images.
    centred, hidden, graph
        As in `digits`.

    Returns
    -------
    Task
        Inputs `(images, 3072)`, pixels in 0..1 unless centred: row by row, the three colours of a pixel side
        by side. Targets `(images, 10)`, one-hot.

    Examples
    --------
    Black images in place of the true ones:

    >>> import neuralrace as nr
    >>> from tempfile import TemporaryDirectory
    >>> x, y = np.zeros((5, 32, 32, 3)), np.arange(5)
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/cifar10.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    ...     nr.tasks.cifar10(folder).arrays[0].shape
    (5, 3072)
    """
    return _chosen(part, centred, *_stored("cifar10", "CIFAR_10", 50_000, path), hidden, graph)


def domain_features(path: str | Path, part: str = "train") -> tuple[list[np.ndarray], np.ndarray]:
    """Features of the images in each input domain, from an encoder of your own.

    For neural_race Fig. 7b: CIFAR-10 images turned by 180 i / domains degrees, and encoded by the first two
    residual blocks of a ResNet-18 that was trained on CIFAR-10 and is fixed.

    Parameters
    ----------
    path : str or Path
        An npz file with `x_train` of shape (domains, images, size), `y_train` of shape (images,), labels from
        0 to 9, and `x_test` and `y_test` likewise. Features are taken as they are: centre and scale them
        before they are written.
    part : {"train", "test"}

    Returns
    -------
    features : list of ndarray, shape (images, size)
        One array for each input domain; `inputs` of `transformed`.
    labels : ndarray, shape (images, 10)
        One-hot.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> x, y = np.zeros((3, 5, 512)), np.arange(5)  # three domains, five images
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/features.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    ...     features, labels = domain_features(f"{folder}/features.npz")
    >>> len(features), features[0].shape, labels.shape
    (3, (5, 512), (5, 10))
    """
    choice("part", part, _KINDS)
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path must be the name of a file, got {short(path)}")
    data, shape = read_npz(Path(path), *PARTS), "(domains, images, size)"
    for kind in _KINDS:
        x, y = data[f"x_{kind}"], data[f"y_{kind}"]
        if x.ndim != 3 or not x.size or not np.isfinite(x).all():
            raise InputError(f"path: x_{kind} must be numbers of shape {shape}, got shape {x.shape}")
        data[f"y_{kind}"] = _checked(f"path: y_{kind}", y, x.shape[1])
    if data["x_train"].shape[::2] != data["x_test"].shape[::2]:
        raise InputError("path: x_train and x_test must have equally many domains and features")
    return list(np.asarray(data[f"x_{part}"], float)), np.eye(CLASSES)[data[f"y_{part}"]]


def _checked(name: str, labels: np.ndarray, images: int) -> np.ndarray:
    """Labels as whole numbers, one per image."""
    if labels.shape != (images,) or not np.isin(labels, np.arange(CLASSES)).all():
        raise InputError(
            f"{name} must hold one label in 0..{CLASSES - 1} per image, got {short(labels)} of shape "
            f"{labels.shape} for {images}"
        )
    return labels.astype(int)


def _chosen(
    part: str, centred: bool, train: Labelled, test: Labelled, hidden: int, graph: Graph | None
) -> Task:
    choice("part", part, _KINDS)
    flag("centred", centred)
    x, labels = train if part == "train" else test
    if centred:
        x = x - train[0].mean(axis=0)
    return Task(chain_or(graph, x.shape[1], hidden, CLASSES), x, np.eye(CLASSES)[labels])


def _stored(name: str, openml: str, first: int, path: Any) -> tuple[Labelled, Labelled]:
    file = _find(name, path)
    if file is not None:
        data = read_npz(file, *PARTS)
        x, y = ([data[f"{k}_{part}"] for part in _KINDS] for k in "xy")
    else:
        errors.need_extra("sklearn", "sklearn")
        from sklearn.datasets import fetch_openml

        try:
            images, labels = fetch_openml(openml, version=1, return_X_y=True, as_frame=False, n_retries=0)
        except Exception as error:
            raise InputError(
                f"path: {name} is not here and could not be downloaded ({error}); give an npz file with "
                f"x_train, y_train, x_test, y_test, or set {FOLDER} to the folder that holds {name}.npz"
            ) from None
        if name == "cifar10":  # channels come first there
            images = images.reshape(-1, 3, 1024).swapaxes(1, 2)
        x, y = np.split(np.asarray(images), [first]), np.split(np.asarray(labels).astype(int), [first])
    y = [
        _checked(f"path: {part} labels in {file}", v, len(u)) for part, u, v in zip(_KINDS, x, y, strict=True)
    ]
    scaled = [images.reshape(len(images), -1) / 255.0 for images in x]
    return (scaled[0], y[0]), (scaled[1], y[1])


def _find(name: str, path: Any) -> Path | None:
    given = path if path is not None else os.environ.get(FOLDER)
    if given is None:
        return None
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"path must be the name of a file or folder, got {short(given)}")
    place = Path(given)
    if place.is_file():
        return place
    files = sorted(place.glob(f"{name}*.npz"))
    if not files:
        raise InputError(f"path must be an npz file or a folder with {name}.npz, got {place}")
    return files[0]


def patch_encoder(base: Task, filters: int = 64, size: int = 6, seed: int = 0) -> Encoder:
    """A fixed nonlinear encoder of colour images: `(n, pixels)` to `(n, 8 filters)`.

    Filters are random patches of the images of `base`, each of mean zero and norm 1; both signs of their
    responses are rectified and averaged over the four quarters of the image. Features are centred, and scaled
    by one number to a mean variance of 1, on `base`.

    Parameters
    ----------
    base : Task
        Square images of three colours, `(images, 3 side^2)`, channels last, such as those of `cifar10`.
    filters : int
        Number of filters.
    size : int
        Side of a filter, in pixels.
    seed : int
        Chooses the patches.

    Returns
    -------
    callable
        `encode(x)`, from images `(n, 3 side^2)` to features `(n, 8 filters)`.

    Examples
    --------
    >>> import neuralrace as nr
    >>> images = np.random.default_rng(0).random((20, 3 * 8 * 8))
    >>> base = nr.Task(nr.Graph.chain([192, 8, 10]), images, np.eye(20)[:, :10])
    >>> encode = nr.tasks.patch_encoder(base, filters=4, size=3)
    >>> encode(images).shape
    (20, 32)
    """
    import jax
    import jax.numpy as jnp

    _check_base(base)
    filters, pixels = integer("filters", filters), base.arrays[0].shape[1]
    side = isqrt(pixels // 3)
    if 3 * side**2 != pixels:
        raise InputError(f"base must hold square images of three colours, got {pixels} inputs")
    integer("size", size, most=side)
    images = base.arrays[0].reshape(-1, side, side, 3)
    rng = np.random.default_rng(integer("seed", seed, least=0))
    which = rng.integers(len(images), size=filters)
    corners = rng.integers(side - size + 1, size=(filters, 2))
    patches = np.stack(
        [images[n, a : a + size, b : b + size] for n, (a, b) in zip(which, corners, strict=True)]
    )
    flat = patches.reshape(filters, -1) - patches.reshape(filters, -1).mean(axis=1, keepdims=True)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
    kernel = jnp.asarray(flat.reshape(patches.shape).transpose(1, 2, 3, 0), jnp.float32)

    @jax.jit
    def features(x: Any) -> Any:
        h = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        h = jax.nn.relu(jnp.concatenate([h, -h], axis=-1))
        half = (h.shape[1] + 1) // 2
        quarters = [h[:, a : a + half, b : b + half] for a in (0, half) for b in (0, half)]
        return jnp.concatenate([q.mean(axis=(1, 2)) for q in quarters], axis=-1)

    def raw(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, np.float32).reshape(-1, side, side, 3)
        return np.concatenate([features(x[k : k + 500]) for k in range(0, len(x), 500)]).astype(float)

    with uninterrupted():
        seen = raw(base.arrays[0])
    mean, scale = seen.mean(axis=0), np.sqrt(seen.var(axis=0).mean())
    return lambda x: (raw(x) - mean) / scale


def input_domains(
    base: Task, domains: int, inputs: str = "permutation", encode: Encoder | None = None
) -> list[np.ndarray]:
    """The images of `base` as each of so many input domains sees them, `(n, size)` each.

    With `inputs="rotation"` domain i sees them turned by 180 i / domains degrees, then `encode`. With
    "permutation" each domain has an order of pixels of its own. A fully connected layer does not know in
    which order its inputs are numbered, and random weights are as likely in one order as in another; so the
    neurons of a domain are numbered such that its pixels come in the order of the base, and all domains share
    one array.

    Parameters
    ----------
    base : Task
        Images `(n, pixels)`. To be turned they must be square, in grey or in three colours, channels last.
    domains : int
        Number of input domains.
    inputs : {"permutation", "rotation"}
        How domains differ.
    encode : callable, optional
        From images `(n, pixels)` to features `(n, size)`, such as a `patch_encoder`; by default pixels are
        left as they are.

    Returns
    -------
    list of ndarray, shape (n, size)
        One per domain.

    Examples
    --------
    >>> import neuralrace as nr
    >>> base = nr.tasks.digits("test")
    >>> [x.shape for x in nr.tasks.input_domains(base, 2, "rotation")]
    [(359, 64), (359, 64)]
    """
    _check_base(base)
    choice("inputs", inputs, ("permutation", "rotation"))
    if encode is not None and not callable(encode):
        raise InputError(f"encode must be a function of images, got {short(encode)}")
    encode = encode or (lambda x: x)
    x, domains = base.arrays[0], integer("domains", domains)
    affordable("domains", domains, float(domains) * (x.size if inputs == "rotation" else 1))
    if inputs == "permutation":
        return [encode(x)] * domains
    return [encode(_rotated(x, 180 * i / domains) if i else x) for i in range(domains)]


def transformed(
    base: Task,
    domains: int,
    trained: Any,
    inputs: str | Sequence[np.ndarray] = "permutation",
    hidden: Sequence[int] = (128, 128),
    seed: int = 0,
    samples: bool = False,
    graph: Graph | None = None,
) -> Task:
    """Routing between `domains` transformations of images and as many permutations of their labels.

    All trained pairs of an input and an output domain are equally frequent; the other domains are off.

    Parameters
    ----------
    base : Task
        Images `(n, pixels)` and one-hot labels `(n, classes)`, such as `digits()`.
    domains : int
        Number of input domains, and of output domains.
    trained : int or array_like, shape (domains, domains)
        Number of output domains that each input domain is trained with, or a matrix that marks the pairs,
        input by output (see `circulant`).
    inputs : {"permutation", "rotation"} or list of array_like, shape (n, size)
        How input domains differ, or what `input_domains` returned.
    hidden : sequence of int
        Neurons of the shared layers.
    seed : int
        Permutes the labels of each output domain at random.
    samples : bool
        By default the task holds moments, all that squared error on linear layers needs. With True it holds
        the images, for activations, biases, cross-entropy and mini-batches.
    graph : Graph, optional
        A graph of your own with inputs x0, x1, ... and outputs y0, y1, ...; by default `Graph.routing`.

    Returns
    -------
    Task
        One context per trained pair.

    Examples
    --------
    >>> import neuralrace as nr
    >>> task = nr.tasks.transformed(nr.tasks.digits(), domains=3, trained=2)
    >>> task.n_contexts, task.sampled
    (6, False)
    """
    _check_base(base)
    pairs, samples = trained_pairs(domains, trained), flag("samples", samples)
    y = base.arrays[1]
    orders = _label_orders(domains, y.shape[1], integer("seed", seed, least=0))
    if isinstance(inputs, str):
        xs = input_domains(base, domains, inputs)
    else:
        xs = [
            array(f"inputs[{i}]", x, (len(y), None))
            for i, x in enumerate(sequence("inputs", inputs, "arrays"))
        ]
    if len(xs) != domains:
        raise InputError(f"inputs must hold {domains} arrays of {len(y)} rows, got {len(xs)}")
    graph = Graph.routing(domains, xs[0].shape[1], hidden, y.shape[1]) if graph is None else graph
    distinct, which = _distinct(xs)
    if samples:
        blocks, targets, n = Blocks(), Blocks(), len(y)
        x_blocks = [blocks.add(x) for x in distinct]
        y_blocks = [targets.add(y[:, order]) for order in orders]
        weight = blocks.add(np.full(n, 1 / (n * len(pairs))))
        ones = blocks.add(np.ones(n)) if graph.biases else None
        contexts = [
            Context({}, {f"x{i}": x_blocks[which[i]]}, {f"y{j}": y_blocks[j]}, ones, weight) for i, j in pairs
        ]
        return Task.from_contexts(graph, contexts)
    given = [(v.T @ v / len(v), y.T @ v / len(v)) for v in distinct]
    power = float((y**2).sum() / len(y))
    joint = {(k, j): syx[order] for k, (_, syx) in enumerate(given) for j, order in enumerate(orders)}
    moments = (
        route_moments(i, j, len(pairs), given[which[i]][0], joint[which[i], j], power) for i, j in pairs
    )
    return Task.from_moments(graph, moments)


def _distinct(arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """Each array once, as domains may share one, and which of them each domain has."""
    distinct: list[np.ndarray] = []
    which = []
    for a in arrays:
        same = next((k for k, other in enumerate(distinct) if other is a), len(distinct))
        distinct += [a] * (same == len(distinct))
        which.append(same)
    return distinct, which


def _check_base(base: Any) -> None:
    if not isinstance(base, Task):
        raise InputError(f"base must be a task of images, such as digits(), got {short(base)}")


def _label_orders(domains: int, classes: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(classes) for _ in range(domains)])


def _rotated(x: np.ndarray, angle: float) -> np.ndarray:
    """Images turned about their centre, in degrees; linear interpolation is a linear map of the pixels."""
    from scipy.ndimage import rotate
    from scipy.sparse import csr_array

    pixels = x.shape[1]
    channels = 1 if isqrt(pixels) ** 2 == pixels else 3
    side = isqrt(pixels // channels)
    if side**2 * channels != pixels:
        raise InputError(f"base must hold square images to rotate, got {pixels} pixels")
    units = np.eye(side**2).reshape(-1, side, side)
    turn = csr_array(rotate(units, angle, axes=(2, 1), reshape=False, order=1).reshape(side**2, -1))
    if channels == 1:
        return x @ turn
    return np.stack([x[:, c::channels] @ turn for c in range(channels)], axis=-1).reshape(x.shape)
