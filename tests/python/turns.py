"""A program of ours and those of others, timed in turn in one schedule: the machine's moods hit all.

Results are compared as well: a number each run returns beside its time.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np


class Peer:
    """A program that answers each line with seconds and a number to check."""

    def __init__(self, *command, **environment):
        command = [str(word) for word in command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, request):
        """The line that answers `request`."""
        self.process.stdin.write(f"{request}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} ended at the request {request!r}")
        return answer.strip()

    def run(self, request):
        seconds, check = self.ask(request).split()
        return float(seconds), float(check)


def serve(skipped, run, write):
    """Answers a `Peer` in Python, line by line, as the examples in Rust do, and two questions more.

    `NAME forward|both` runs a contender: `run(name, what)` returns seconds and the number to check.
    `memory` is the largest number of bytes resident since it was asked last, and the number now.
    `NAME skip` asks why a contender cannot run: its entry in `skipped`, else nothing.
    `NAME values INPUT OUTPUT` is for files of tensors: `write(name, input, output)`.
    """
    for line in sys.stdin:
        match line.split():
            case ["memory"]:
                print(*memory(), flush=True)
            case [name, "skip"]:
                print(skipped.get(name, ""), flush=True)
            case [name, "values", source, target]:
                write(name, source, target)
                print("written", flush=True)
            case [name, what]:
                print(*run(name, what), flush=True)


def memory():
    """Bytes: the most that was resident since this was called last, and what is now. Linux only."""
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return [int(status[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS")]


def timed(body):
    """Seconds, and what `body` returns."""
    start = time.perf_counter()
    result = body()
    return time.perf_counter() - start, result


def words(rows, columns, seed):
    """The numbers of benches/examples/linear_peer.rs."""
    hashes = (np.arange(rows * columns, dtype=np.uint64) + np.uint64(seed)) * 2654435761 & 0xFFFFFFFF
    numbers = ((hashes >> 8).astype(np.float32) / np.float32(1 << 23) - np.float32(1)) * np.float32(0.125)
    return numbers.reshape(rows, columns)


def header(peers, of_peak=False):
    """What stands over the lines of `in_turn`."""
    share = f" {'of peak':>7}" if of_peak else ""
    return f"{'':20} {'ours ms':>9}{share}" + "".join(f" {name:>9} {'/ ours':>6}" for name in peers)


def in_turn(title, ours, peers, rounds, tolerances, peak=None, operations=None, calls=1):
    """Prints a line for each of `ours`, by name; how many results agreed with those of the peers and how many did not.

    All are functions that return seconds and the number to check, which may differ from that of a peer by
    its part of `tolerances`, relative to its size. One run of each comes first: memory is touched, code compiled.
    A turn is so many `calls`, of which the fastest counts. A virtual machine may give free memory back to its host within seconds, and
    gets a gigabyte again no faster than in one: a program that calls in a loop rarely waits for that, one that waits for its turn does.

    `peak` runs once a round and returns seconds and the operations done in them: then a column says how much of the highest such
    rate the useful `operations` of each of ours, by name, have reached.
    """
    runs = ours | peers
    checks = {name: body()[1] for name, body in runs.items()}
    seconds = {name: [] for name in runs}
    rates = []
    for _ in range(rounds):
        if peak:
            duration, done = peak()
            rates.append(done / duration)
        for name, body in runs.items():
            seconds[name].append(min(body()[0] for _ in range(calls)))
    times = {name: statistics.median(values) for name, values in seconds.items()}
    counts = [0, 0]
    for name in ours:
        beside = "".join(f" {times[peer] * 1e3:9.2f} {times[peer] / times[name]:6.2f}" for peer in peers)
        share = f" {operations[name] / times[name] / max(rates):7.2f}" if peak else ""
        print(f"{title:9} {name:10} {times[name] * 1e3:9.2f}{share}{beside}", flush=True)
        for peer in peers:
            agrees = abs(checks[name] - checks[peer]) <= tolerances[peer] * max(abs(checks[peer]), 1e-3)
            counts[not agrees] += 1
            if not agrees:
                print(f"{title} {name}: ours is {checks[name]}, {peer} {checks[peer]}")
    return counts
