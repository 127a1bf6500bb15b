"""Cycles of a program that the TPU compiler has scheduled, from its listings of bundles.

    tpu_schedule.py --tilecast PATH --libtpu FILE --target v5e program.mlir

A TPU core takes one bundle of operations each cycle, so the schedule of a program without branches is its length. With them
it depends on scalar registers only: loops of the grid, the steps in which a window is copied, conditions of the kernel. So
the scalar operations of each bundle are executed here, as they are listed after register allocation, and the bundles that
are passed are counted. All else is skipped, and what a vector tells the scalar core is taken as 0: data decides next to
nothing in these programs (our forward kernel folds a block again where a sum of exponentials became too large: here, never).

The same run times the copies. Each takes a latency and its bytes at the rate of the compiler's own model, one after the
other (`tilecast targets` has both; there is none for v4), or with --independent at once; where the program waits for one that is not
done yet, it stalls.

The compiler writes a listing for each kernel, for each fusion of XLA around them, and for the program that calls them (TLP);
that one is run, with what it calls. Memory that no scalar operation has written, nor a copy of --scalars, reads as 0 (so it is core 0 that
is run), and as 1 in TLP, which looks there whether it is to start.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

DUMP_FLAGS = [
    "--xla_jf_dump_llo_text=true",
    "--xla_jf_emit_annotations=true",
    "--xla_jf_dump_llo_pass_label_regex=^packed-bundles-post-ra$",
]
VERSION = "2"  # of what `read` answers
MAIN = "TLP"
LISTING = re.compile(r"\d+-(.*)-\d+-packed-bundles-post-ra\.txt$")
CALLED = re.compile(r"\b(?:inlined_)?call\b([^/]*)/\* %(\S+) =")
NAMED = re.compile(r"/\*([a-z_]+)=\*/")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
BUNDLE = re.compile(r"^\s*(0x[0-9a-f]+|0)\s+[^:]*:\s*(?:>\s*)*\{(.*?)\}[^}\n]*$", re.M | re.S)
SCALAR = re.compile(r"%[\w.]+_(?:s|p)\d+ = |\bsst\b|\bsbr\b|\bdma\.|\bsdivrem|\bvsync|\binlined_call\b")
OPERATION = re.compile(r"(?:%([\w.]+) = )?([a-z]\w*(?:\.\w+)*)\s*(.*)$", re.S)
PREDICATE = re.compile(r"(?:^|\s)\((!?)%[\w.]+_p(\d+)\)(?:,\s*|\s+|$)")
TIED = re.compile(r"\((!?)%[\w.]+_p(\d+), ([^)]*)\), (.*)$")
TARGET = re.compile(r"target bundleno = (\d+)")
ARITHMETIC = {"sadd": "+", "ssub": "-", "smul": "*", "sshll": "<<"}
BITWISE = {"sand": "&", "sor": "|", "sxor": "^", "sshra": ">>"}
LOGIC = {"por": "({} or {})", "pand": "({} and {})", "pnand": "not ({} and {})", "pnor": "not ({} or {})", "pxor": "({} != {})"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Operations that leave the registers as they are: a pointer or a phi names a register again.
NEUTRAL = {"int_to_ptr", "sphi", "inlined_call_operand", "shalt", "sfence", "vsyncmov", "sdelay", "strace", "setrngseed"}
# Values from elsewhere, taken as 0, as is what is computed of data in f32: from a vector, a semaphore, the loader. Of these only the
# first decides a branch, in a kernel that does over again what its data made inaccurate: 0 is accurate.
UNKNOWN = {"spop", "reloc", "scalar_parameter_address"}
EFFECTS = {"sst", "sbr", "dma", "vsyncadd", "vsyncpa", "sdivrem"}
# What an operand of prefetched scalars is: its kind of memory, and its number.
OPERAND = re.compile(r"%[\w.]+_s\d+ = inlined_call_operand\.(<no memory space>|\w+) \[shape: s32\[[\d,]*\], index: (\d+),")
# An address that no program computes, and by how many bits those of VMEM are larger.
SCALARS, VMEM_SHIFT = 77_000_001, 4
MOST_BLOCKS = 100_000_000


class Unreadable(Exception):
    """A listing holds what this reader does not know."""


def signed(value):
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


class Program:
    """A listing, of which only the bundles with scalar operations are kept."""

    def __init__(self, name, text):
        self.name = name
        # Comments that say what the operation does not.
        text = CALLED.sub(lambda m: f"inlined_call({m[2]}){m[1]}", text)
        text = re.sub(r"/\* (\w+)-to-(\w+) \*/", r", path=\1_to_\2", text)
        text = re.sub(r"(sdivrem)\.u32 ([^/]*)/\* k(Rem|Div) \*/", r"\1.\3 \2", text)
        text = COMMENT.sub("", NAMED.sub(r"\1=", text))
        self.bundles, self.length = {}, 0
        for number, body in BUNDLE.findall(text):
            self.length = int(number, 16) + 1
            if SCALAR.search(body):
                self.bundles[int(number, 16)] = [part.strip() for part in body.split(";;")]
        self.numbers = sorted(self.bundles)
        self.blocks = {}


class Machine:
    """One core: scalar registers, predicates, the memory that scalars wrote, semaphores, and a clock."""

    def __init__(self, programs, figures, independent=False, scalars=()):
        self.programs, self.figures, self.independent = programs, figures, independent
        # By the number of an operand; and where those of several elements are, as an address and as one of VMEM.
        self.scalars = {i: elements for i, elements in enumerate(scalars) if elements is not None}
        self.arrays = {SCALARS + i << shift: elements for i, elements in self.scalars.items() for shift in (0, VMEM_SHIFT)}
        self.delay = figures["branch_delay_cycles"]
        self.S, self.P, self.memory = [0] * 64, [False] * 32, {}
        self.semaphores = collections.defaultdict(lambda: [0, collections.deque()])
        self.cycles = self.stalled = self.copies_free_at = self.ran = 0
        self.addresses, self.calls, self.divided = {}, [], {}
        self.bytes = collections.Counter()

    # What generated code calls.

    def copy(self, at, path, granules, semaphore):
        """Starts a copy in the cycle `at` of the running block. Without a model of copies it is done at once."""
        figures, now = self.figures, self.cycles + self.stalled + at
        size = granules * figures["dma_granule_bytes"]
        self.bytes[path] += size
        rate = figures["dma_bytes_per_cycle"]
        done = now
        if rate and "hbm" in path:
            latency = figures["vmem_to_hbm_latency_cycles" if path.endswith("hbm") else "hbm_to_vmem_latency_cycles"]
            start = now if self.independent else max(self.copies_free_at, now)
            self.copies_free_at = start + size / rate
            done = self.copies_free_at + latency
        self.semaphores[semaphore][1].append((done, granules))

    def prefetch(self, source, target):
        """Scalars of an operand arrive in the memory of the scalar core."""
        for i, element in enumerate(self.arrays.get(source, ())):
            self.memory[target + i] = element

    def wait(self, at, semaphore, count):
        state = self.semaphores[semaphore]
        while state[0] < count:
            if not state[1]:
                raise Unreadable(f"a wait for {count} at semaphore {semaphore:#x}, which holds {state[0]} and has no copy under way")
            done, granules = state[1].popleft()
            state[0] += granules
            self.stalled += max(0, done - (self.cycles + self.stalled + at))

    def add(self, semaphore, count):
        self.semaphores[semaphore][0] += signed(count)

    def call(self, at, name):
        program = self.programs.get(name)
        if program is None:
            return
        kept, start = (self.S[:], self.P[:], self.cycles), (self.cycles, self.stalled, dict(self.bytes))
        self.cycles += at
        begin = self.cycles
        self.run(program)
        moved = sum(self.bytes.values()) - sum(start[2].values())
        self.calls.append((name, self.cycles - begin, self.stalled - start[1], moved))
        # The caller's bundles are counted when its block ends.
        self.cycles -= at
        self.S[:], self.P[:] = kept[0], kept[1]

    def run(self, program):
        at = 0
        while at is not None:
            block = program.blocks.get(at)
            if block is None:
                block = program.blocks[at] = self.translate(program, at)
            at = block()
            self.ran += 1
            if self.ran > MOST_BLOCKS:
                raise Unreadable(f"{program.name} does not end")

    # Translation of a block: from a bundle to the end of the delay of the next branch, as a Python function.

    def translate(self, program, start):
        lines, branch, last = [], None, program.length - 1
        numbers = program.numbers
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if numbers[middle] < start else (low, middle)
        for number in numbers[low:]:
            if number > last:
                break
            reads, writes, effects = [], [], []
            for text in program.bundles[number]:
                taken = self.operation(program, text, number - start, reads, writes, effects)
                if taken is not None:
                    if branch is not None:
                        raise Unreadable(f"{program.name}: a branch in the delay of another, bundle {number:#x}")
                    branch, last = taken, min(number + self.delay, last)
                    effects.insert(0, f"taken = {taken[0]}")
            lines += effects
            if writes:
                lines.append(f"{', '.join(writes)} = {', '.join(reads)}")
        following = "None" if last + 1 >= program.length else last + 1
        lines.append(f"M.cycles += {last + 1 - start}")
        lines.append(f"return {branch[1]} if taken else {following}" if branch else f"return {following}")
        space = {"M": self, "S": self.S, "P": self.P, "memory": self.memory, "signed": signed}
        exec("def block():\n    " + "\n    ".join(lines), space)
        return space["block"]

    def operation(self, program, text, at, reads, writes, effects):
        """Adds the code of one operation. Returns condition and target of a branch."""
        called = re.search(r"\binlined_call\((.*?)\)", text)
        if called:
            effects.append(f"M.call({at}, {called[1]!r})")
            return None
        match = OPERATION.match(text)
        if match is None:
            return None
        name, operation, rest = match.groups()
        operation, _, variant = operation.partition(".")
        rest = re.sub(r"^\[thread:\S+\]\s*", "", rest)
        register = re.search(r"_([sp])(\d+)$", name or "")
        given = OPERAND.match(text)
        if given and int(given[2]) in self.scalars:
            number = int(given[2])
            writes.append(f"S[{register[2]}]")
            # One element is passed by itself.
            reads.append(str(self.scalars[number][0] if given[1] == "<no memory space>" else SCALARS + number))
            return None
        if operation in NEUTRAL or not (register or operation in EFFECTS):
            return None
        condition = None
        tied = TIED.match(rest)
        predicate = None if tied else PREDICATE.search(rest)
        if predicate:
            condition = f"{'not ' if predicate[1] else ''}P[{predicate[2]}]"
            rest = rest[: predicate.start()] + rest[predicate.end() :]
        if operation == "sbr":
            return condition or "True", int(TARGET.search(rest)[1])
        if register is None:
            effect = self.effect(program, name, operation, variant, rest, at)
            if effect:
                effects.append(f"if {condition}: {effect}" if condition else effect)
            return None
        place = f"{register[1].upper()}[{register[2]}]"
        if tied:
            old, new = self.value(program, tied[3]), self.value(program, tied[4])
            value = f"({new} if {'not ' if tied[1] else ''}P[{tied[2]}] else {old})"
        else:
            value = self.result(program, operation, variant, rest)
        writes.append(place)
        reads.append(f"({value} if {condition} else {place})" if condition else value)
        return None

    def effect(self, program, name, operation, variant, rest, at):
        """Code of an operation that writes no register."""
        if operation == "sst":
            where, _, what = rest.partition("]]")
            return f"memory[{self.address(program, where)}] = {self.value(program, what.split('=')[-1])}"
        arguments = self.arguments(rest)
        if operation == "dma" and variant.startswith("done.wait"):
            return f"M.wait({at}, {self.value(program, arguments[0])}, {self.value(program, arguments[1])})"
        if operation == "dma":
            named = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
            granules, semaphore = (self.value(program, named[key]) for key in ("size_in_granules", "dst_syncflagno"))
            copy = f"M.copy({at}, {named.get('path', variant)!r}, {granules}, {semaphore})"
            if not variant.endswith("_to_smem"):
                return copy
            source, target = (self.value(program, named[key]) for key in (variant.removesuffix("_to_smem"), "smem"))
            return f"{copy}; M.prefetch({source}, {target})"
        if operation == "sdivrem":
            left, right = (self.value(program, argument) for argument in arguments)
            return f"M.divided[{name!r}] = {left} {'%' if variant == 'Rem' else '//'} {right}"
        if variant:  # another core's semaphore
            return None
        semaphore, count = (self.value(program, argument) for argument in arguments[:2])
        if operation == "vsyncpa":
            return f"M.semaphores[{semaphore}][0] = {count}"
        return f"M.add({semaphore}, {count})"

    def result(self, program, operation, variant, rest):
        """Code of the value that an operation writes."""
        if operation == "sld":
            return f"memory.get({self.address(program, rest)}, {int(program.name == MAIN)})"
        if (operation, variant) == ("spop", "drf"):
            return f"M.divided.get({rest.lstrip('%')!r}, 0)"
        if operation in UNKNOWN or variant.startswith("f32"):
            return "0"
        values = [self.value(program, argument.split("=")[-1]) for argument in self.arguments(rest)]
        if operation in ("smov", "pmov"):
            return values[0]
        if operation == "scalar_lea":
            return f"signed({' + '.join(values)})"
        if operation == "scalar_select":
            return f"({values[1]} if {values[0]} else {values[2]})"
        if operation in ARITHMETIC:
            return f"signed({values[0]} {ARITHMETIC[operation]} {values[1]})"
        if operation in BITWISE:
            return f"({values[0]} {BITWISE[operation]} {values[1]})"
        if operation == "sshllo":  # ones come from the right
            return f"signed({values[0]} << {values[1]} | (1 << {values[1]}) - 1)"
        if operation == "smulhi":
            return f"signed((({values[0]} & 0xFFFFFFFF) * ({values[1]} & 0xFFFFFFFF)) >> 32)"
        if operation == "sc":  # the carry of a sum
            return f"(({values[0]} & 0xFFFFFFFF) + ({values[1]} & 0xFFFFFFFF) > 0xFFFFFFFF)"
        if operation == "sshrl":
            return f"(({values[0]} & 0xFFFFFFFF) >> {values[1]})"
        if operation in ("smax", "smin"):
            if variant.startswith("u32"):
                return f"signed({operation[1:]}({values[0]} & 0xFFFFFFFF, {values[1]} & 0xFFFFFFFF))"
            return f"{operation[1:]}({values[0]}, {values[1]})"
        if operation == "scmp":
            kind, form = variant.split(".")[:2]
            if form == "u32":
                values = [f"({value} & 0xFFFFFFFF)" for value in values]
            return f"({values[0]} {COMPARE[kind]} {values[1]})"
        if operation in LOGIC:
            return LOGIC[operation].format(*values)
        if operation == "pneg":
            return f"not {values[0]}"
        raise Unreadable(f"{program.name}: {operation}.{variant} {rest}")

    @staticmethod
    def arguments(text):
        return [part.strip() for part in text.split(",")]

    def address(self, program, text):
        """`[smem:[#allocation4 + $0x1]]`, with or without the end."""
        return self.value(program, text[text.index(":") + 1:])

    def value(self, program, text):
        text = re.sub(r"(?<=\S) \[#\w+\]$", "", text)  # of a pointer: what it points to
        terms = [self.term(program, term.strip()) for term in re.split(r"(?<!\de)\+", text.strip().strip("[]"))]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def term(self, program, text):
        register = re.fullmatch(r"(!?)%[\w.]+_([sp])(\d+)", text)
        if register:
            return f"{'not ' if register[1] else ''}{register[2].upper()}[{register[3]}]"
        if text.startswith("#"):
            key = program.name, text
            return str(self.addresses.setdefault(key, len(self.addresses) + 1 << 14))
        number = re.fullmatch(r"\$?(-?)(0x[0-9a-f]+|\d+)", text)
        if number:
            return str(signed(int(number[1] + number[2], 0)))
        if re.fullmatch(r"-?[\d.e+-]+|inf|nan", text):
            return repr(float(text))
        raise Unreadable(f"{program.name}: {text}")


def listings(folder):
    """The programs of a folder of dumps by name."""
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*"))):
        match = LISTING.search(os.path.basename(path))
        if match:
            with open(path) as f:
                found[match[1]] = Program(match[1], f.read())
    return found


def read(folder, figures, independent=False, scalars=()):
    """Cycles of the whole program in `folder`, and of each kernel and fusion that it calls; copies take turns unless they are independent.
    `scalars` are the elements of the operands of its kernel, where they are prefetched scalars."""
    programs = listings(folder)
    if MAIN not in programs:
        raise Unreadable("the compiler wrote no listing of the program")
    machine = Machine(programs, figures, independent, scalars)
    machine.run(programs[MAIN])
    calls = {}
    for name, cycles, stalled, size in machine.calls:
        empty = {"launches": 0, "cycles": 0, "cycles_with_copies": 0, "bytes_copied": 0}
        first = {"first_cycles": cycles, "first_cycles_with_copies": round(cycles + stalled)}
        call = calls.setdefault(name, empty | first)
        call["launches"] += 1
        call["cycles"] += cycles
        call["cycles_with_copies"] += round(cycles + stalled)
        call["bytes_copied"] += size
    return {"cycles": machine.cycles, "cycles_with_copies": round(machine.cycles + machine.stalled), "calls": calls}


def figures(tilecast, target):
    """Figures of a target by name."""
    answer = subprocess.run([tilecast, "targets", "--json"], capture_output=True, text=True, check=True)
    for found in json.loads(answer.stdout)["targets"]:
        if target in [found["name"], *found["aliases"]]:
            return {figure["name"]: figure["value"] for figure in found["figures"]}
    raise SystemExit(f"{target} is no target of {tilecast}")


def cores(figures):
    """Cores that share the work of a program."""
    return figures["tensorcores"] if figures["megacore"] else 1


def compile_with_listings(tilecast, libtpu, target, program, folder, timeout=1200, form="--stablehlo", more=()):
    """What `tilecast compile` says of a file of this form; the compiler's listings go to `folder`."""
    environment = dict(os.environ, LIBTPU_INIT_ARGS=" ".join([f"--xla_jf_dump_to={folder}", *DUMP_FLAGS]))
    command = [tilecast, "compile", form, program, "--target", target, "--libtpu", libtpu, "--json", *more]
    done = subprocess.run([*command, "--timeout", str(timeout)], capture_output=True, text=True, env=environment)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"status": "crash", "message": done.stderr.strip() or f"{command[0]} ended with {done.returncode}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", help="the compiler, to compile PROGRAM")
    parser.add_argument("--target", required=True)
    parser.add_argument("--listings", metavar="DIR", help="read what the compiler has written here, instead")
    parser.add_argument("--independent", action="store_true", help="copies do not take turns")
    parser.add_argument("--scalars", metavar="FILE", help="what the one kernel of the program gets at run time, as for `simulate --scalars`")
    parser.add_argument("program", nargs="?", help="a StableHLO file")
    options = parser.parse_args()
    scalars = ()
    if options.scalars:
        with open(options.scalars) as f:
            scalars = json.load(f)["prefetched"]
    if options.listings:
        schedule = read(options.listings, figures(options.tilecast, options.target), options.independent, scalars)
        print(json.dumps(schedule, indent=2))
        return 0
    with tempfile.TemporaryDirectory(prefix="tilecast-schedule-") as folder:
        answer = compile_with_listings(options.tilecast, options.libtpu, options.target, options.program, folder)
        if answer["status"] != "ok":
            print(json.dumps(answer))
            return 2
        answer["schedule"] = read(folder, figures(options.tilecast, options.target), options.independent, scalars)
    print(json.dumps(answer, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
