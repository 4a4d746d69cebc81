"""A small Ethernet switch on unix sockets: one learning segment for each rail.

Each guest NIC (QEMU `-netdev stream`) connects to its own socket `<node>.<rail>`; a frame
travels as a 32-bit big-endian length and its bytes. Frames wait rather than get lost when a
receiver is slow; one that takes nothing for STALL_S loses its frames until it takes some. Faults
(drop, loss, delay) act on what a node sends into its port. `control` takes one JSON request a
connection: {"op": "ports"} or {"op": "set", "port": "node-a/0", "loss": 0.01, ...}.
"""

import collections
import heapq
import itertools
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

HEAD = struct.Struct(">I6s")  # frame length, destination address
LENGTH_SIZE = 4
LEARN_AT = 10  # source address: after the length and the destination
MIN_FRAME = 14
MAX_FRAME = 65536 + 64
BUFFER = 256 * 1024
QUEUE_HIGH = 512 * 1024
DELAY_MAX = 64 * 1024 * 1024
STALL_S = 2.0
NO_FAULTS = {"drop": False, "loss": 0.0, "delay_ms": 0.0}


class Port:
    """One NIC's connection: what arrived in part, what waits to be sent, its faults and counts."""

    def __init__(self, name, listener):
        self.name = name
        self.rail = name.rsplit("/", 1)[1]
        self.listener = listener
        self.sock = None
        self.buffer = bytearray(BUFFER)
        self.view = memoryview(self.buffer)
        self.faults = dict(NO_FAULTS)
        self.sent = dict.fromkeys(("frames", "bytes", "lost", "dropped", "stalled"), 0)
        self.disconnect()

    def disconnect(self):
        """Forget the connection and what belongs to it."""
        if self.sock:
            self.sock.close()
        self.sock = None
        self.fill = 0
        self.queue = collections.deque()
        self.queued = self.offset = 0
        self.waiters = set()
        self.since = None
        self.deaf = False

    def faulty(self):
        """Whether frames need a look one by one."""
        return self.faults != NO_FAULTS

    def describe(self):
        """What `control` tells about this port."""
        return {"connected": self.sock is not None, "faults": self.faults, "sent": self.sent}


class Switch:
    """Moves frames between ports until it is told to end."""

    def __init__(self, folder, nodes):
        self.epoll = select.epoll()
        self.control = listen(os.path.join(folder, "control"))
        self.ports = {}
        self.handlers = {self.control.fileno(): (self.serve_control, None)}
        self.table = {}
        self.delayed = []
        self.delayed_bytes = 0
        self.waiting = set()  # ports with a queue
        self.order = itertools.count()
        self.running = True
        self.epoll.register(self.control.fileno(), select.EPOLLIN)
        for node, rail in itertools.product(nodes, (0, 1)):
            port = Port(f"{node}/{rail}", listen(os.path.join(folder, f"{node}.{rail}")))
            self.ports[port.name] = port
            self.handlers[port.listener.fileno()] = (self.accept, port)
            self.epoll.register(port.listener.fileno(), select.EPOLLIN)

    def run(self):
        """The main loop."""
        while self.running:
            for fd, events in self.epoll.poll(self.patience()):
                handler, port = self.handlers.get(fd, (None, None))
                if handler:
                    handler(port, events)
            if self.delayed:
                self.deliver_delayed()
            if self.waiting:
                self.give_up_on_stalled()

    def patience(self):
        """Seconds until something is due without an event."""
        due = [self.delayed[0][0] - time.monotonic()] if self.delayed else []
        due += [STALL_S / 4] if any(not port.deaf for port in self.waiting) else []
        return max(0.0, min(due)) if due else -1

    def accept(self, port, _events):
        """A NIC connects; a new connection replaces an old one."""
        sock, _ = port.listener.accept()
        self.close(port)
        sock.setblocking(False)
        port.sock = sock
        self.handlers[sock.fileno()] = (self.on_port, port)
        self.epoll.register(sock.fileno(), select.EPOLLIN)

    def close(self, port):
        """The NIC is gone: nobody waits for it any more."""
        waiters, port.waiters = port.waiters, set()
        if port.sock:
            self.epoll.unregister(port.sock.fileno())
            del self.handlers[port.sock.fileno()]
        port.disconnect()
        self.waiting.discard(port)
        for other in self.ports.values():
            other.waiters.discard(port)
        self.resume(waiters)

    def on_port(self, port, events):
        """Send first, so that room appears before more arrives."""
        if events & select.EPOLLOUT:
            self.flush(port)
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and port.sock:
            self.receive(port)

    def receive(self, port):
        """Take what has arrived and pass on every whole frame of it."""
        try:
            count = port.sock.recv_into(port.view[port.fill :])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self.close(port)
            return
        end = port.fill + count
        done = self.forward(port, end)
        if done is None:
            self.close(port)
            return
        port.fill = end - done
        if port.fill and done:
            port.buffer[: port.fill] = port.buffer[done:end]

    def forward(self, port, end):
        """Pass on the frames in buffer[:end]; runs to one destination go in one piece.

        Returns where the first incomplete frame begins, None when the stream is broken.
        """
        buffer, view, unpack = port.buffer, port.view, HEAD.unpack_from
        start = position = frames = 0
        current = None
        single = port.faulty()
        while end - position >= LENGTH_SIZE + MIN_FRAME:
            size, destination = unpack(buffer, position)
            if not MIN_FRAME <= size <= MAX_FRAME:
                return None
            if position + LENGTH_SIZE + size > end:
                break
            if destination != current or single:
                if frames:
                    self.pass_on(port, current, view[start:position], frames)
                start, current, frames = position, destination, 0
            frames += 1
            position += LENGTH_SIZE + size
        if frames:
            self.pass_on(port, current, view[start:position], frames)
        return position

    def pass_on(self, port, destination, chunk, frames):
        """Learn the sender, apply its faults, send the chunk where its destination lives."""
        self.table[port.rail, bytes(chunk[LEARN_AT : LEARN_AT + 6])] = port
        faults, sent = port.faults, port.sent
        if faults["drop"]:
            sent["dropped"] += frames
            return
        if faults["loss"] and random.random() < faults["loss"]:
            sent["lost"] += frames
            return
        sent["frames"] += frames
        sent["bytes"] += len(chunk) - LENGTH_SIZE * frames
        peer = self.table.get((port.rail, destination))
        peers = [peer] if peer else [p for p in self.ports.values() if p.rail == port.rail and p is not port]
        for peer in peers:
            if faults["delay_ms"]:
                self.postpone(peer, bytes(chunk), faults["delay_ms"] / 1000)
            elif peer is not port:
                self.send(peer, chunk, port)

    def postpone(self, peer, chunk, seconds):
        """Keep a frame for later; what no memory is left for is lost."""
        if self.delayed_bytes + len(chunk) > DELAY_MAX:
            return
        self.delayed_bytes += len(chunk)
        heapq.heappush(self.delayed, (time.monotonic() + seconds, next(self.order), peer, chunk))

    def deliver_delayed(self):
        """Send what is due."""
        now = time.monotonic()
        while self.delayed and self.delayed[0][0] <= now:
            _, _, peer, chunk = heapq.heappop(self.delayed)
            self.delayed_bytes -= len(chunk)
            self.send(peer, chunk, None)

    def send(self, peer, chunk, source):
        """Send whole frames to a peer; what does not fit waits, and then so does its source."""
        if peer.sock is None:
            return
        if peer.deaf:
            peer.sent["stalled"] += count_frames(chunk)
            return
        sent = 0
        if not peer.queue:
            try:
                sent = peer.sock.send(chunk)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # its own event closes it
            if sent == len(chunk):
                return
            self.epoll.modify(peer.sock.fileno(), self.wanted(peer) | select.EPOLLOUT)
            peer.offset, peer.since = sent, time.monotonic()
            self.waiting.add(peer)
        peer.queue.append(bytes(chunk))
        peer.queued += len(chunk) - sent
        if source and source.sock and peer.queued > QUEUE_HIGH:
            peer.waiters.add(source)
            self.epoll.modify(source.sock.fileno(), select.EPOLLOUT if source.queue else 0)

    def wanted(self, port):
        """EPOLLIN unless this port has to wait for another one."""
        return 0 if any(port in other.waiters for other in self.ports.values()) else select.EPOLLIN

    def flush(self, port):
        """Send what waits; with the queue empty, those who waited for it go on."""
        while port.queue:
            chunk = memoryview(port.queue[0])[port.offset :]
            try:
                sent = port.sock.send(chunk)
            except BlockingIOError:
                return
            except OSError:
                self.close(port)
                return
            port.queued -= sent
            port.since = time.monotonic()
            port.offset += sent
            if sent == len(chunk):
                port.queue.popleft()
                port.offset = 0
        port.since, port.deaf = None, False
        self.waiting.discard(port)
        self.epoll.modify(port.sock.fileno(), self.wanted(port))
        waiters, port.waiters = port.waiters, set()
        self.resume(waiters)

    def resume(self, ports):
        """Let ports send again that waited, unless they wait for somebody else too."""
        for port in ports:
            if port.sock:
                out = select.EPOLLOUT if port.queue else 0
                self.epoll.modify(port.sock.fileno(), self.wanted(port) | out)

    def give_up_on_stalled(self):
        """A receiver that takes nothing must not hold the others: drop what waits for it."""
        for port in self.waiting:
            if not port.deaf and time.monotonic() - port.since > STALL_S:
                self.discard(port)

    def discard(self, port):
        """Empty a queue up to the end of the frame that is half sent; no more until that is out."""
        chunk, boundary, frames = port.queue[0], 0, 0
        while boundary < port.offset:
            boundary += LENGTH_SIZE + HEAD.unpack_from(chunk, boundary)[0]
        rest = chunk[port.offset : boundary]
        for piece in [chunk[boundary:], *list(port.queue)[1:]]:
            frames += count_frames(piece)
        port.sent["stalled"] += frames
        port.queue = collections.deque([rest] if rest else [])
        port.queued, port.offset = len(rest), 0
        port.since, port.deaf = time.monotonic(), True
        waiters, port.waiters = port.waiters, set()
        self.resume(waiters)

    def serve_control(self, _port, _events):
        """Answer one request; a client that does not ask at once is not waited for."""
        client, _ = self.control.accept()
        with client:
            client.settimeout(1.0)
            try:
                answer = self.answer(json.loads(client.makefile().readline()))
                client.sendall(json.dumps(answer).encode() + b"\n")
            except (OSError, ValueError, KeyError, TypeError) as error:
                print(f"control: {error!r}", file=sys.stderr, flush=True)

    def answer(self, request):
        """What a request changes, then the ports as they are."""
        if request["op"] == "set":
            port = self.ports[request["port"]]
            port.faults.update({key: request[key] for key in NO_FAULTS if key in request})
        return {name: port.describe() for name, port in self.ports.items()}

    def stop(self, *_):
        """End after the current round."""
        self.running = False


def count_frames(chunk):
    """Whole frames in a chunk."""
    position = frames = 0
    while position < len(chunk):
        position += LENGTH_SIZE + HEAD.unpack_from(chunk, position)[0]
        frames += 1
    return frames


def listen(path):
    """A listening unix socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    sock.listen(4)
    return sock


def ask(folder, request):
    """Send one request to the switch of a lab; returns its ports."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(5.0)
        sock.connect(os.path.join(folder, "control"))
        sock.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(sock.makefile().readline())


def main(arguments):
    """`switch.py FOLDER NODE...`: serve until SIGTERM."""
    switch = Switch(arguments[0], arguments[1:])

    def end(*_):
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    switch.run()


if __name__ == "__main__":
    main(sys.argv[1:])
