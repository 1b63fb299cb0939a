"""Duration of the exchange of a split state, by method."""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.split_states.counts import ALL_TO_ALL, GATHER, REDUCE, SEND, SOCKETS
from benchmarks.split_states.shares import CollectiveShares, RemoteShares

REPEATS = 7
# Real numbers of an amplitude.
_PARTS = 2
_COPIED_BYTES = 2**26


def copy_rate() -> float:
    """Return the bytes per second of a copy of an array in memory."""
    source = np.ones(_COPIED_BYTES, np.uint8)
    target = np.empty_like(source)
    return _COPIED_BYTES / _median_seconds(lambda: np.copyto(target, source))


def remote_seconds(shares: RemoteShares, qubits: int) -> dict[str, float]:
    """Return the seconds of an exchange between the devices of one client, by method."""
    parts = []
    for share, device in shares.devices.items():
        with tf.device(device):
            parts.append(tf.constant(_blocks(share, qubits, shares.count)))

    @tf.function
    def exchange(*parts: tf.Tensor) -> list[tf.Tensor]:
        received = []
        for device, part in zip(shares.devices.values(), shares.exchange(parts), strict=True):
            with tf.device(device):
                received.append(part[:, 0, 0])
        # Small tensors on the client, which has them after the exchange.
        return [tf.identity(first) for first in received]

    received = [first.numpy() for first in exchange(*parts)]
    for share, first in enumerate(received):
        _check(first, share)
    return {SEND: _median_seconds(lambda: [first.numpy() for first in exchange(*parts)])}


def collective_seconds(shares: CollectiveShares, qubits: int) -> dict[str, float]:
    """Return the seconds of an exchange between processes that run this function, by method."""
    (index,) = shares.devices
    blocks = tf.constant(_blocks(index, qubits, shares.count))

    def by_gather(blocks: tf.Tensor) -> tf.Tensor:
        return tf.reshape(shares.gather(blocks), [shares.count, *blocks.shape])[:, index]

    def by_reduce(blocks: tf.Tensor) -> tf.Tensor:
        padded = tf.pad(blocks[:, None], [[0, 0], [index, shares.count - 1 - index], [0, 0], [0, 0]])
        return shares.total([padded])[index]

    def by_all_to_all(blocks: tf.Tensor) -> tf.Tensor:
        (received,) = shares.exchange([blocks])
        return received

    def seconds_of(method: Callable[[tf.Tensor], tf.Tensor]) -> float:
        run = tf.function(lambda blocks: method(blocks)[:, 0, 0])
        _check(run(blocks).numpy(), index)
        return _median_seconds(lambda: run(blocks).numpy())

    methods = {ALL_TO_ALL: by_all_to_all, GATHER: by_gather, REDUCE: by_reduce}
    return {name: seconds_of(method) for name, method in methods.items()}


class SocketExchange:
    """Exchange of blocks over TCP connections between all pairs of processes, without TensorFlow."""

    def __init__(self, index: int, ports: Sequence[int], timeout_seconds: float) -> None:
        self._index, self._count = index, len(ports)
        self._peers: dict[int, socket.socket] = {}
        with socket.create_server(("127.0.0.1", ports[index]), backlog=len(ports)) as server:
            server.settimeout(timeout_seconds)
            for peer in range(index):
                self._peers[peer] = _connect(ports[peer], timeout_seconds)
                self._peers[peer].sendall(bytes([index]))
            for _ in range(index + 1, len(ports)):
                connection, _ = server.accept()
                connection.settimeout(timeout_seconds)
                self._peers[connection.recv(1)[0]] = connection

    def seconds(self, qubits: int) -> dict[str, float]:
        """Return the seconds of an exchange, by method."""
        blocks = _blocks(self._index, qubits, self._count)
        received = np.empty_like(blocks)
        received[self._index] = blocks[self._index]

        def exchange() -> None:
            transfers = [
                threading.Thread(target=transfer, args=(peer, array[number]))
                for number, peer in self._peers.items()
                for transfer, array in ((_send, blocks), (_receive, received))
            ]
            for transfer in transfers:
                transfer.start()
            for transfer in transfers:
                transfer.join()

        exchange()
        _check(received[:, 0, 0], self._index)
        return {SOCKETS: _median_seconds(exchange)}


def _connect(port: int, timeout_seconds: float) -> socket.socket:
    """Connect to a process that may not listen yet."""
    end = time.monotonic() + timeout_seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout_seconds)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _send(peer: socket.socket, block: npt.NDArray[np.float32]) -> None:
    peer.sendall(block.view(np.uint8).data)


def _receive(peer: socket.socket, block: npt.NDArray[np.float32]) -> None:
    view = block.reshape(-1).view(np.uint8).data
    while view:
        received = peer.recv_into(view)
        if not received:
            raise ConnectionError("A process has closed its connection.")
        view = view[received:]


def _blocks(share: int, qubits: int, shares: int) -> npt.NDArray[np.float32]:
    """Return the blocks of a share, (shares, amplitudes, 2). Each value is the share times 100 plus the receiver."""
    blocks = np.empty((shares, 2**qubits // shares**2, _PARTS), np.float32)
    blocks[:] = (100 * share + np.arange(shares))[:, None, None]
    return blocks


def _check(received: npt.NDArray[Any], share: int) -> None:
    """Raise RuntimeError if the received blocks are not those for a share."""
    expected = 100 * np.arange(len(received)) + share
    if not np.array_equal(received, expected):
        raise RuntimeError(f"Share {share} received wrong blocks. Given: {received.tolist()}")


def _median_seconds(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
