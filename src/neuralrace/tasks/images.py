"""Images, and routing between transformations of them (neural_race section 5 and appendix D)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import InputError, choice, flag, short
from neuralrace.files import read_npz
from neuralrace.graph import Graph
from neuralrace.task import Task
from neuralrace.tasks.structured import chain_or

CLASSES = 10
_KINDS = ("train", "test")
PARTS = ("x_train", "y_train", "x_test", "y_test")  # arrays of an image file
FOLDER = "NEURALRACE_DATA"  # environment variable: where image files lie


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


Labelled = tuple[np.ndarray, np.ndarray]


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
