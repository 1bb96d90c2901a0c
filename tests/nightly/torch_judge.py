"""
Runs kernels of libflashsteps.so on tensors of PyTorch's and compares with PyTorch in double precision, for fuzz.py.

What rounding may do to an element is what docs/mathematics.md derives in its section 7: at most `bound` times the element's
unit, which those pages call its scale. Inputs, results, units and bounds are computed here, by PyTorch, and not by common/,
so that a mistake there is seen, too.
"""
import contextlib
import ctypes
import itertools
import json
import math
import os
import random
import shlex
import sys
import threading
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "common/tools/bench"))
import torch_peers as peers  # noqa: E402

TYPES = {"f32": (peers.F32, torch.float32), "f16": (peers.F16, torch.float16), "bf16": (peers.BF16, torch.bfloat16)}
ROUNDOFF, SMALLEST_NORMAL = 2.0 ** -24, 2.0 ** -126  # of float
SCORES_AT_A_TIME = 1 << 24
GUARD, ALIGNMENT, UNWRITTEN = 1024, 256, 0xFF  # bytes
TIMEOUT_SECONDS = 300
INFINITY = float("inf")


def roundings(terms):
    """Returns the length of a sum in roundings."""
    return min(terms, 6.0 * math.sqrt(terms))


@contextlib.contextmanager
def deadline(what):
    """A kernel that never ends cannot be stopped, but the process can."""
    def end():
        print(f"no end after {TIMEOUT_SECONDS} s: {what}", flush=True)
        os._exit(1)
    timer = threading.Timer(TIMEOUT_SECONDS, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Array:
    """
    A tensor lies between two guard zones, `shift` elements past an address that is a multiple of 256. Before a kernel runs, all
    bytes of an output and of the zones are 0xFF: a NaN of each type, which no arithmetic makes.
    """

    def __init__(self, shape, element, device, shift=0):
        size = math.prod(shape) * element.itemsize
        self.whole = torch.full((2 * GUARD + 2 * ALIGNMENT + size,), UNWRITTEN, dtype=torch.uint8, device=device)
        self.begin = GUARD + -(self.whole.data_ptr() + GUARD) % ALIGNMENT + shift * element.itemsize
        self.end = self.begin + size
        self.tensor = self.whole[self.begin:self.end].view(element).view(shape)
        self.kept = None

    def address(self):
        return self.tensor.data_ptr()

    def clear(self):
        self.whole.fill_(UNWRITTEN)

    def keep(self):
        self.kept = self.whole.clone()

    def guards_intact(self):
        zones = torch.cat((self.whole[:self.begin], self.whole[self.end:]))
        return bool((zones == UNWRITTEN).all())

    def unwritten(self):
        """Counts the elements that were never written."""
        return int((self.tensor.view({2: torch.int16, 4: torch.int32}[self.tensor.element_size()]) == -1).sum())


def difference(name, out, value, unit, bound):
    """Says what is wrong with an output; empty when nothing is. NaN and infinities must be the same."""
    out = out.double()
    same = (out == value) | (out.isnan() & value.isnan())
    wrong = ~(same | (value.isfinite() & ((out - value).abs() <= bound * unit)))
    if not wrong.any():
        return ""
    at = tuple(wrong.nonzero()[0].tolist())
    return (f"{name}{list(at)} is {out[at].item():.9g}, should be {value[at].item():.9g} within "
            f"{(bound * unit[at]).item():.2g}; {int(wrong.sum())} of {wrong.numel()} are wrong")


class Inputs:
    """Makes the kinds of common/harness/inputs.h, and `special`: normal with NaN and infinities in a few places."""

    def __init__(self, device, seed):
        self.generator = torch.Generator(device).manual_seed(seed)
        self.device = device

    def uniform(self, *shape):
        return torch.rand(*shape, generator=self.generator, device=self.device)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, device=self.device)

    def signs(self, *shape):
        return torch.where(self.uniform(*shape) < 0.5, -1.0, 1.0)

    def along(self, kind, count):
        """Rises from 0 to 20, or falls back."""
        return torch.linspace(*((0.0, 20.0) if kind == "ascending" else (20.0, 0.0)), count, device=self.device)

    def matrix(self, kind, rows, cols):
        if kind == "uniform":
            return self.uniform(rows, cols)
        if kind == "large":
            return self.signs(rows, 1) * (120.0 + 80.0 * self.uniform(rows, cols))
        if kind in ("ascending", "descending"):
            return self.along(kind, cols) + 0.1 * self.normal(rows, cols)
        if kind == "outliers":
            return torch.where(self.uniform(rows, cols) < 0.01, 30.0, self.normal(rows, cols))
        if kind == "constant":
            return self.normal(rows, 1).repeat(1, cols)
        x = self.normal(rows, cols)
        if kind == "special" and x.numel() > 0:
            for value in (float("nan"), INFINITY, -INFINITY):
                if self.uniform(1) < 0.5:
                    x.view(-1)[torch.randint(x.numel(), (1,), generator=self.generator, device=self.device)] = value
        return x

    def scores(self, kind, queries, heads, keys, head_dim):
        """Returns Q and K, [queries, head_dim] and [heads, keys, head_dim]. The kind is that of the rows of scores."""
        reach = head_dim ** -0.5  # of a score: 1 / (scale * head_dim)
        if kind == "large":  # scores of 104 to 200 in magnitude, with one sign per query
            q, k = ((0.8 + 0.2 * self.uniform(rows, 1)) * (0.9 + 0.1 * self.uniform(rows, head_dim))
                    for rows in (queries, heads * keys))
            return self.signs(queries, 1) * (200.0 * reach) ** 0.5 * q, (200.0 * reach) ** 0.5 * k
        if kind in ("ascending", "descending"):
            k = reach * self.along(kind, keys)[:, None] + 0.1 * self.normal(heads, keys, head_dim)
            return 1.0 + 0.1 * self.normal(queries, head_dim), k
        if kind == "constant":
            return self.normal(queries, head_dim), self.normal(heads, 1, head_dim).repeat(1, keys, 1)
        return self.matrix(kind, queries, head_dim), self.matrix(kind, heads * keys, head_dim)


class Problem:
    """Holds arrays by name. A subclass says how a kernel is launched on them, and what the outputs should be."""

    def __init__(self, inputs, outputs, **values):
        self.inputs, self.outputs, self.workspace = inputs, outputs, {}
        for name, value in values.items():
            inputs[name].tensor.copy_(value.reshape(inputs[name].tensor.shape))
            inputs[name].keep()

    def describe(self):
        return ", ".join(f"{name} {list(array.tensor.shape)}" for name, array in (self.inputs | self.outputs).items())

    def addresses(self):
        return [ctypes.c_void_p(array.address()) for array in (self.inputs | self.outputs).values()]

    def verdict(self, expected):
        """Says what is wrong after a run; empty when nothing is. The order is that of common/harness/trial.h."""
        for name, array in (self.inputs | self.outputs | self.workspace).items():
            if not array.guards_intact():
                return f"written outside of {name}"
        for name, array in self.inputs.items():
            if not torch.equal(array.whole, array.kept):
                return f"input {name} was changed"
        for name, array in self.outputs.items():
            if array.unwritten():
                return f"{array.unwritten()} elements of {name} were never written"
        for name, array in self.outputs.items():
            if name in expected and (wrong := difference(name, array.tensor, *expected[name])):
                return wrong
        return ""


class Matmul(Problem):
    def __init__(self, problem, device, rng):
        m, n, k = self.sizes = [problem["sizes"][side] for side in "mnk"]
        shift = rng.choice((0, 1))
        a, b, c = (Array(shape, torch.float32, device, shift) for shape in ((m, k), (k, n), (m, n)))
        kind, made = problem["inputs"], Inputs(device, problem["seed"])
        kind_b = kind if kind in ("uniform", "outliers", "special") else "normal"
        super().__init__({"A": a, "B": b}, {"C": c}, A=made.matrix(kind, m, k), B=made.matrix(kind_b, k, n))

    def launch(self, library, row, stream):
        return library.matmul_run(row, *self.addresses(), *self.sizes, stream)

    def expected(self):
        a, b = (array.tensor.double() for array in self.inputs.values())
        return {"C": (a @ b, a.abs() @ b.abs() + SMALLEST_NORMAL, ROUNDOFF * (roundings(a.shape[1]) + 1.0))}


class Softmax(Problem):
    def __init__(self, problem, device, rng):
        self.sizes = problem["sizes"]["rows"], problem["sizes"]["cols"]
        shift = rng.choice((0, 1, 2, 3))
        made = Inputs(device, problem["seed"])
        x = made.matrix(problem["inputs"], *self.sizes)
        if problem["inputs"] == "special":  # some rows have nothing but -inf
            x.masked_fill_(made.uniform(*self.sizes) < 1.2 * made.uniform(self.sizes[0], 1), -INFINITY)
        super().__init__({"input": Array(self.sizes, torch.float32, device, shift)},
                         {"output": Array(self.sizes, torch.float32, device, shift)}, input=x)

    def launch(self, library, row, stream):
        return library.softmax_run(row, *self.addresses(), *self.sizes, stream)

    def expected(self):
        x = self.inputs["input"].tensor.double()
        if x.numel() == 0:
            return {}
        value = torch.softmax(x, 1)
        below = (x.amax(1, keepdim=True) - x).masked_fill_(value == 0.0, 0.0)
        return {"output": (value, value * (1.0 + below) + SMALLEST_NORMAL, ROUNDOFF * (roundings(x.shape[1]) + 8.0))}


def attention_of_head(q, k, v, scale, visible, smallest):
    """Returns O, LSE and their units for some queries of a head, in double precision. Query i sees the first visible[i] keys."""
    hidden = torch.arange(len(k), device=k.device) >= visible[:, None]
    s = (scale * (q @ k.T)).masked_fill_(hidden, -INFINITY)
    m = torch.cat((s, s.new_full((len(q), 1), -INFINITY)), 1).amax(1, keepdim=True)  # this works without keys, too
    m.masked_fill_(m == -INFINITY, 0.0)
    p = torch.exp(s - m)
    total = p.sum(1, keepdim=True)
    seen = total != 0.0
    p = torch.where(seen, p / total, 0.0)
    lse = (m + total.log()).squeeze(1)
    # Each is the largest norm of a visible key. A norm that is not finite has no weight or makes the row NaN.
    norms = torch.cat((k.new_zeros(1), torch.linalg.vector_norm(k, dim=1).nan_to_num_(0.0, 0.0, 0.0))).cummax(0).values
    reach = abs(scale) * torch.linalg.vector_norm(q, dim=1).nan_to_num_(0.0, 0.0, 0.0) * norms[visible]
    small = torch.cat((v.new_zeros(1, v.shape[1]), v.abs().cumsum(0)))[visible] / torch.where(seen, total, 1.0)
    unit = p @ v.abs() * (1.0 + reach[:, None]) + smallest * (1.0 + small)
    return p @ v, lse, unit, 1.0 + reach + torch.where(lse.isfinite(), lse.abs(), 0.0)


class OfHeads(Problem):
    """Both passes of attention: a kernel takes one structure, `call`. A subclass names its type and the functions of the library."""

    def draw(self, problem, device, rng):
        """Draws what is not in the problem. Returns its sizes, its element type and how far arrays are off their alignment."""
        self.device = device
        self.sizes = [problem["sizes"][name] for name in ("batch", "heads", "kv-heads", "seq-q", "seq-kv", "head-dim")]
        self.causal = problem["sizes"].get("causal", False)
        self.scale = ctypes.c_float(self.sizes[-1] ** -0.5 * rng.choice((1.0, 1.0, 1.0, 0.3, -1.0, 0.0))).value
        self.number, element = TYPES[problem["type"]]
        return self.sizes, element, rng.choice((0, 0, 0, 1))

    def prepare(self, **more):
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim")
        self.call = self.structure(**dict(zip(names, self.sizes)), causal=self.causal, scale=self.scale, type=self.number, **more)
        for name, array in (self.inputs | self.outputs).items():
            setattr(self.call, name, array.address())

    def describe(self):
        return f"{super().describe()}, causal {self.causal}, scale {self.scale:.3g}"

    def launch(self, library, row, stream):
        # The workspace is new for each kernel, so that it holds nothing from the last one.
        size = getattr(library, self.asks_workspace)(row, ctypes.byref(self.call))
        self.workspace = {"workspace": Array((size,), torch.uint8, self.device)}
        self.call.workspace, self.call.stream = self.workspace["workspace"].address(), stream
        return getattr(library, self.runs)(row, ctypes.byref(self.call))

    def parts(self, length):
        """Yields queries that are judged together, a slice, and how many of the `length` keys each sees."""
        queries = self.sizes[3]
        visible = torch.full((queries,), length, device=self.device)
        if self.causal:
            visible = (torch.arange(queries, device=self.device) + 1 + length - queries).clamp(0, length)
        together = max(1, SCORES_AT_A_TIME // max(1, self.sizes[4]))
        for first in range(0, queries, together):
            part = slice(first, first + together)
            yield part, visible[part]


class Attention(OfHeads):
    """Windows, soft caps and ALiBi are not judged here."""
    structure, asks_workspace, runs = peers.Attention, "flashsteps_workspace", "attention_run"

    def __init__(self, problem, device, rng):
        (batch, heads, kv_heads, queries, keys, head_dim), element, shift = self.draw(problem, device, rng)
        page, self.lengths, self.pages = problem["sizes"].get("page", 0), [keys] * batch, None
        columns = -(-keys // page) if page else 0
        pool = batch * columns + 3 if page else 0
        of_keys = (pool, kv_heads, page, head_dim) if page else (batch, kv_heads, keys, head_dim)
        q, k, v, o = (Array(shape, element, device, shift) for shape in (
            (batch, heads, queries, head_dim), of_keys, of_keys, (batch, heads, queries, head_dim)))
        outputs = {"O": o}
        if rng.random() < 0.9:  # LSE may be null
            outputs["LSE"] = Array((batch, heads, queries), torch.float32, device)
        kind, made = problem["inputs"], Inputs(device, problem["seed"])
        value_q, value_k = made.scores(kind, batch * heads * queries, batch * kv_heads, keys, head_dim)
        kind_v = kind if kind in ("uniform", "outliers") else "normal"
        self.K, self.V = (value.reshape(batch, kv_heads, keys, head_dim).to(element)
                          for value in (value_k, made.matrix(kind_v, batch * kv_heads * keys, head_dim)))
        inputs, values = {"Q": q, "K": k, "V": v}, {"Q": value_q}
        if problem["sizes"].get("lengths"):
            self.lengths = [rng.choice((keys, 0, min(1, keys), rng.randint(0, keys), rng.randint(0, keys))) for _ in range(batch)]
            inputs["lengths"] = Array((batch,), torch.int32, device)
            values["lengths"] = torch.tensor(self.lengths)
            for b, length in enumerate(self.lengths):  # past the end there may be anything
                self.K[b, :, length:] = self.V[b, :, length:] = INFINITY
        if page:
            order = rng.sample(range(pool), batch * columns)
            self.pages = torch.tensor(order, dtype=torch.int32).view(batch, columns)
            inputs["pages"] = Array((batch, columns), torch.int32, device)
            unused = torch.arange(columns) * page >= torch.tensor(self.lengths)[:, None]
            values["pages"] = self.pages.masked_fill(unused, -1)
        values |= {"K": self.in_pages(self.K, k.tensor), "V": self.in_pages(self.V, v.tensor)}
        super().__init__(inputs, outputs, **values)
        self.prepare(page_size=page, pool_pages=pool)

    def in_pages(self, keys, like):
        """Returns the keys or values as they lie in memory; what lies in no sequence's page is NaN."""
        if self.pages is None:
            return keys
        (batch, kv_heads, count, head_dim), page = keys.shape, like.shape[2]
        padded = torch.full((batch, kv_heads, self.pages.shape[1] * page, head_dim), float("nan"), dtype=keys.dtype, device=keys.device)
        padded[:, :, :count] = keys
        pool = torch.full_like(like, float("nan"))
        pool[self.pages.view(-1).long().to(keys.device)] = padded.view(batch, kv_heads, -1, page, head_dim).transpose(1, 2).flatten(0, 1)
        return pool

    def expected(self):
        q, (batch, heads, kv_heads, queries, keys, head_dim) = self.inputs["Q"].tensor, self.sizes
        limits = torch.finfo(q.dtype)
        found = [[], [], [], []]
        for b, h in itertools.product(range(batch), range(heads)):
            of_head = [x[b, h // (heads // kv_heads), :self.lengths[b]].double() for x in (self.K, self.V)]
            for part, visible in self.parts(self.lengths[b]):
                results = attention_of_head(q[b, h, part].double(), *of_head, self.scale, visible, limits.tiny)
                for pieces, piece in zip(found, results):
                    pieces.append(piece)
        if not found[0]:
            return {}
        o, lse, unit, unit_lse = (torch.cat(pieces).view(batch, heads, queries, *pieces[0].shape[1:]) for pieces in found)
        bound = ROUNDOFF * (2.0 * (roundings(head_dim) + 4.0) + 2.0 * roundings(keys) + 16.0)
        narrow = 0.0 if q.dtype == torch.float32 else 1.5 * limits.eps  # P and O are rounded, and small P lose some
        return {"O": (o, unit, bound + narrow), "LSE": (lse, unit_lse, bound)}


def weights_of_head(q, k, scale, visible):
    """Returns P for some queries of a head. What is not seen has no gradient, and no NaN comes of it."""
    s = scale * (q @ k.T)
    # A score below float's range is -inf there.
    hidden = (torch.arange(len(k), device=k.device) >= visible[:, None]) | (s < -torch.finfo(torch.float32).max)
    nothing = hidden.all(1, keepdim=True)
    return torch.softmax(s.masked_fill(hidden, -INFINITY).masked_fill(nothing, 0.0), 1).masked_fill(nothing, 0.0)


class AttentionBackward(OfHeads):
    """
    The gradients are autograd's, of the forward pass: the kernels' formulas are only in the units. O and LSE are that pass's,
    rounded to their types, so D and P may be off by one roundoff more than where the reference takes O and LSE as they are.
    """
    structure, asks_workspace, runs = peers.AttentionBackward, "flashsteps_backward_workspace", "attention_backward_run"

    def __init__(self, problem, device, rng):
        (batch, heads, kv_heads, queries, keys, head_dim), element, shift = self.draw(problem, device, rng)
        of_queries, of_keys = (batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim)
        kind, made = problem["inputs"], Inputs(device, problem["seed"])
        # An infinite key would make dQ NaN.
        q, k = made.scores("normal" if kind == "special" else kind, batch * heads * queries, batch * kv_heads, keys, head_dim)
        kind_v = kind if kind in ("uniform", "outliers") else "normal"
        v, gradient = (made.matrix(kind_v, math.prod(shape[:3]), head_dim) for shape in (of_keys, of_queries))
        q, k, v, gradient = (x.reshape(shape).to(element) for x, shape in
                             ((q, of_queries), (k, of_keys), (v, of_keys), (gradient, of_queries)))
        if kind == "special":
            self.hide_keys(q, k)
        o, lse = torch.zeros_like(q), torch.zeros(batch, heads, queries, device=device)
        for b, h, kv in self.heads():
            for part, visible in self.parts(keys):
                o[b, h, part], lse[b, h, part], *_ = attention_of_head(
                    q[b, h, part].double(), k[b, kv].double(), v[b, kv].double(), self.scale, visible, 0.0)
        values = {"Q": q, "K": k, "V": v, "O": o, "LSE": lse, "dO": gradient}
        super().__init__({name: Array(x.shape, x.dtype, device, shift if name != "LSE" else 0) for name, x in values.items()},
                         {name: Array(shape, element, device, shift) for name, shape in
                          (("dQ", of_queries), ("dK", of_keys), ("dV", of_keys))}, **values)
        self.prepare()

    def hide_keys(self, q, k):
        """Scores become -inf: of a third of the heads for all keys but the last three, of a third for all but the first two, of
        the others for all. In f16, which has not the range, those keys have the weight 0, or all the same."""
        self.scale = ctypes.c_float(q.shape[-1] ** -0.5).value  # another sign would make them +inf
        wide = q.dtype != torch.float16
        q[..., 0] = 2.0 ** 100 if wide else 1.0
        of_heads = k.flatten(0, 1)
        for head, kept in enumerate((slice(-3, None), slice(0, 2), slice(0, 0))):
            column = of_heads[head::3, :, 0]
            column.fill_(-2.0 ** 100 if wide else -60000.0)
            column[:, kept] = 0.0

    def heads(self):
        """Yields each head with its batch, and the head of K and V that it reads."""
        batch, heads, kv_heads = self.sizes[:3]
        for b, h in itertools.product(range(batch), range(heads)):
            yield b, h, h // (heads // kv_heads)

    def expected(self):
        _, heads, kv_heads, queries, keys, head_dim = self.sizes
        q, k, v, o, lse, gradient = (array.tensor.double() for array in self.inputs.values())
        lse = torch.where(lse.isfinite(), lse.abs(), 0.0)[..., None]
        values, units, spreads = ({"dQ": torch.zeros_like(q), "dK": torch.zeros_like(k), "dV": torch.zeros_like(v)}
                                  for _ in range(3))
        for b, h, kv in self.heads():
            of_head = k[b, kv].clone().requires_grad_(), v[b, kv].clone().requires_grad_()
            for part, visible in self.parts(keys):
                x, dx = q[b, h, part].clone().requires_grad_(), gradient[b, h, part]
                p = weights_of_head(x, of_head[0], self.scale, visible)
                found = torch.autograd.grad(p @ of_head[1], (x, *of_head), dx)
                of_q, of_k, of_v, of_dx, p = (y.detach().abs() for y in (x, *of_head, dx, p))
                p_unit = p * (1.0 + abs(self.scale) * (of_q @ of_k.T) + lse[b, h, part])
                s_unit = p_unit * (of_dx @ of_v.T + (of_dx * o[b, h, part].abs()).sum(1, keepdim=True))
                sees = (torch.arange(keys, device=q.device) < visible[:, None]).double()
                of_sums = [(s_unit @ of_k, s_unit.T @ of_q, p_unit.T @ of_dx), (sees @ of_k, sees.T @ of_q, sees.T @ of_dx)]
                for into, pieces in zip((values, units, spreads), (found, *of_sums)):
                    into["dQ"][b, h, part] = pieces[0]
                    into["dK"][b, kv] += pieces[1]
                    into["dV"][b, kv] += pieces[2]
        limits = torch.finfo(self.inputs["Q"].tensor.dtype)
        terms = max(keys, heads // kv_heads * queries)
        bound = ROUNDOFF * (2.0 * (roundings(head_dim) + 4.0) + roundings(terms) + 18.0)
        narrow = 0.0 if limits.bits == 32 else 2.0 * limits.eps  # P, dS, O and the result are rounded
        factors = {"dQ": abs(self.scale), "dK": abs(self.scale), "dV": 1.0}
        return {name: (values[name], factor * units[name] + limits.tiny * (1.0 + max(factor, 1.0) * spreads[name]), bound + narrow)
                for name, factor in factors.items()}


PROBLEMS = {"matmul": Matmul, "softmax": Softmax, "attention": Attention, "attention_backward": AttentionBackward}


class PyTorch:
    """Judges for fuzz.py. On a GPU its problems have a thousand times the work."""
    inputs = ["special"]
    tries = 3  # a program takes longer to find the device than its kernels take to run

    def __init__(self, shared_object, device):
        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError(f"PyTorch {torch.__version__} has no GPU")
        self.path, self.device, self.kernels = shared_object, device, peers.load(shared_object)
        self.reach, self.work = (8, 1000) if device == "cuda" else (1, 1)
        place = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
        self.name = f"PyTorch {torch.__version__} in double precision on {place}"

    def run(self, problem, row):
        for array in problem.outputs.values():
            array.clear()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream) if self.device == "cuda" else None
        peers.check(self.kernels, problem.launch(self.kernels, row, stream))
        if self.device == "cuda":
            torch.cuda.synchronize()
        else:
            peers.check(self.kernels, self.kernels.cudaDeviceSynchronize())

    def judge(self, listing, problem, kernels):
        """Returns (kernel, "pass", "FAIL" or other outcome, why, the command that shows it) for these kernels."""
        arrays = PROBLEMS[listing["problem"]](problem, self.device, random.Random(problem["seed"]))
        expected = None
        for name, row in peers.kernels_of(self.kernels, listing["number"], listing["problem"]):
            if name not in kernels:
                continue
            command = (f"{Path(sys.executable).name} tests/nightly/fuzz.py {listing['program']} --library {self.path} --device {self.device} "
                       f"--kernel {name} --problem {shlex.quote(json.dumps(problem))}\n"
                       f"  {problem['inputs']}, {problem['type']}: {arrays.describe()}")
            try:
                with deadline(f"{name}\n  {command}"):
                    self.run(arrays, row)
                expected = expected or arrays.expected()
                why = arrays.verdict(expected)
                yield name, "FAIL" if why else "pass", why, command
            except (peers.Refused, torch.cuda.OutOfMemoryError) as error:
                yield name, "refused", str(error).splitlines()[0], command
            except RuntimeError as error:  # after this the device may accept nothing else
                yield name, "FAIL", str(error).splitlines()[0], command
                return
