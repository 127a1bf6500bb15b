"""A program of ours and PyTorch, timed in turn in one schedule: the machine's moods hit both.

Results are compared as well: a number each run returns beside its time.
"""

import statistics
import subprocess
import time

HEADER = f"{'':20} {'ours ms':>9} {'eager ms':>9} {'compiled':>9}   {'eager/ours':>10} {'compiled/ours':>13}"


class Peer:
    """Our side: a program that answers each line with seconds and a number to check."""

    def __init__(self, *command):
        command = [str(word) for word in command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def run(self, request):
        self.process.stdin.write(f"{request}\n")
        self.process.stdin.flush()
        seconds, check = self.process.stdout.readline().split()
        return float(seconds), float(check)


def timed(body):
    """Seconds, and what `body` returns."""
    start = time.perf_counter()
    result = body()
    return time.perf_counter() - start, result


def in_turn(title, ours, eager, compiled, rounds, tolerance):
    """Prints a line for each of `ours`, by name; how many results agreed with PyTorch's and how many did not.

    All are functions that return seconds and the number to check, which may differ by `tolerance` of its size. One run
    of each comes first: memory is touched, code compiled.
    """
    runs = ours | {"eager": eager, "compiled": compiled}
    checks = {name: body()[1] for name, body in runs.items()}
    seconds = {name: [] for name in runs}
    for _ in range(rounds):
        for name, body in runs.items():
            seconds[name].append(body()[0])
    times = {name: statistics.median(values) for name, values in seconds.items()}
    counts = [0, 0]
    for name in ours:
        print(
            f"{title:10} {name:9} {times[name] * 1e3:9.2f} {times['eager'] * 1e3:9.2f} {times['compiled'] * 1e3:9.2f}"
            f"   {times['eager'] / times[name]:10.2f} {times['compiled'] / times[name]:13.2f}",
            flush=True,
        )
        for peer in ("eager", "compiled"):
            agrees = abs(checks[name] - checks[peer]) <= tolerance * max(abs(checks[peer]), 1e-3)
            counts[not agrees] += 1
            if not agrees:
                print(f"{title} {name}: ours is {checks[name]}, {peer} {checks[peer]}")
    return counts
