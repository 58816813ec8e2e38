"""Workers that misbehave, for tests of the desk; they import nothing heavy, so that they start fast."""

import os
import time
from multiprocessing.connection import Connection

TOO_LARGE = 77  # as in neuralrace.laboratory.worker


def dies(module: str, pipe: Connection, *_: object) -> None:
    """A worker that ends at its start."""
    with open(os.environ["DEATHS"], "a") as file:
        file.write("x")
    os._exit(3)


def repeats(module: str, pipe: Connection, *_: object) -> None:
    """A worker that answers a job with itself; `sleep` takes long, `large` is ended for its memory."""
    while True:
        head, content = pipe.recv_bytes().decode().split("\n")
        letter, job = head.split(" ", 1)
        if letter == "j":
            pipe.send_bytes(f"s {job}\n".encode())
            if content == "large":
                os._exit(TOO_LARGE)
            if content == "die":
                os._exit(5)
            time.sleep(20 if content == "sleep" else 0)
            pipe.send_bytes(f'a {job}\n{{"kind": "{content}"}}'.encode())
            pipe.send_bytes(f"f {job}\n".encode())
