#!/usr/bin/env python3
"""Times PyTorch's kernels and ours in turn: same tensors, same stream, outputs compared before any timing.

    common/tools/bench/torch_peers.py build/gpu/libflashsteps.so STEP OUT.csv [--cells REGEX] [--kernels NAME ...] [--peers NAME ...]
        [--slice MS]

STEP is 03, 04, 05 or 06; OUT.csv has the columns that the benchmark programs write (common/tools/bench/bench.h). For other
steps, or without a PyTorch that has a GPU, it prints one line that nothing was compared and exits with status 0. Where
power limits, the clock swings for longer than the usual slice: a slice of 400 ms tells kernels apart that are 1 % apart.

Peers: PyTorch's softmax (03); memory-efficient attention in single precision (04, 05); FlashAttention-2 and cuDNN's
attention in half precision (06), and FlashAttention-3 and -4 where this Python has them: flash_attn_interface, the copy
inside xformers or, forward in bfloat16 alone, fa3_fwd_interface (pip install fa3-fwd); flash_attn.cute (flash-attn-4). Of
attention both passes are timed. With pages or lengths, FlashAttention-3 and FlashInfer (flashinfer-python); PyTorch's kernels
take neither, and get K and V without pages, or a call for each sequence.
"""
import argparse
import csv
import ctypes
import datetime
import importlib
import importlib.metadata
import importlib.util
import itertools
import pathlib
import random
import re
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    torch = None

COLD_ROUNDS, COLD_BURST, REST_S = 7, 3, 0.012
SUSTAINED_ROUNDS = 7
LEAD_CYCLES = 1_000_000  # half a millisecond: longer than Python takes to launch the slowest peer
SLOWEST_MS, COLD_BUDGET_MS = 1500.0, 300.0
COLUMNS = ["step", "shape", "protocol", "kernel", "role", "flops", "bytes", "ms", "ms_p10", "ms_p90", "laps", "tflops",
           "gbps", "difference", "sm_mhz", "watts"]
STEPS = {"03": "03_online_softmax", "04": "04_flash_v1", "05": "05_flash_v2", "06": "06_causal_half"}
SOFTMAX_SHAPES = [(65536, 128), (65536, 1024), (16384, 4096), (16384, 8192), (4096, 32768), (2048, 131072),
                  (65536, 1023), (16384, 4095), (2048, 131071)]
# Batch, heads, kv_heads, queries and keys: what inference asks for, one word after the other or a few at a time.
DECODE_SHAPES = [(1, 64, 8, 1, 131072), (1, 64, 8, 1, 16384), (16, 64, 8, 1, 8192), (64, 64, 8, 1, 8192), (16, 64, 8, 4, 8192),
                 (64, 64, 8, 8, 8192), (16, 32, 32, 1, 4096), (64, 32, 8, 1, 1024)]
PAGED_SHAPES, PAGES = [DECODE_SHAPES[2], DECODE_SHAPES[3], DECODE_SHAPES[5]], (16, 64, 256)
NOT_SUPPORTED, INVALID_VALUE = 801, 1


F32, F16, BF16 = 0, 1, 2  # enum tensor_type


def members(header, struct):
    """Reads a C struct's members from a header: (name, ctypes type) in their order."""
    kinds = {"int": ctypes.c_int, "bool": ctypes.c_bool, "float": ctypes.c_float, "enum tensor_type": ctypes.c_int,
             "cudaStream_t": ctypes.c_void_p}
    text = re.sub(r"/\*.*?\*/", " ", (pathlib.Path(__file__).parents[3] / header).read_text(encoding="utf-8"), flags=re.DOTALL)
    for declaration in re.search(rf"\bstruct {struct} {{(.*?)}};", text, re.DOTALL)[1].split(";")[:-1]:
        kind, names = re.match(r"\s*(?:const )?(enum \w+|\w+)\s+(.*)", declaration, re.DOTALL).groups()
        for name in names.split(","):
            yield name.strip(" *\n"), ctypes.c_void_p if "*" in name else kinds[kind]


class Attention(ctypes.Structure):
    """This is struct attention. What a caller does not name is 0."""
    _fields_ = list(members("common/problems/attention.h", "attention"))


class AttentionBackward(ctypes.Structure):
    """This is struct attention_backward."""
    _fields_ = list(members("common/problems/attention_backward.h", "attention_backward"))


class Refused(Exception):
    """A kernel refuses these arguments, or the device is too old for it."""


class Sensors:
    """Reads clock and power through NVML, the library behind nvidia-smi. It only asks."""

    def __init__(self, uuid):
        self.device = ctypes.c_void_p()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByUUID(
                    f"GPU-{uuid}".encode(), ctypes.byref(self.device)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def driver(self):
        version = ctypes.create_string_buffer(96)
        if self.nvml is None or self.nvml.nvmlSystemGetDriverVersion(version, 96):
            return "unknown"
        return version.value.decode()

    def read(self):
        """Returns (MHz, W), with zeros where unknown."""
        if self.nvml is None:
            return 0, 0.0
        clock, power = ctypes.c_uint(0), ctypes.c_uint(0)
        self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(clock))
        self.nvml.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(power))
        return clock.value, power.value / 1000.0


class Cell:
    """A cell is one shape: its name, its work, its entrants' functions without arguments, and the output that ours write."""

    def __init__(self, label, flops, moved, inputs, output):
        self.label, self.flops, self.moved, self.inputs, self.output = label, flops, moved, inputs, output
        self.entrants = []
        self.workspace = self.arrays = None  # referenced here, because the kernels get only their addresses

    def work(self):
        return self.flops or self.moved


def load(shared_object):
    library = ctypes.CDLL(shared_object)
    library.flashsteps_kernel.restype = ctypes.c_void_p
    library.refusal.restype = ctypes.c_char_p
    library.flashsteps_workspace.restype = ctypes.c_size_t
    library.flashsteps_backward_workspace.restype = ctypes.c_size_t
    return library


def kernels_of(library, step, problem="attention"):
    """Returns (name, row) of the step's kernels that solve the problem."""
    found, index = [], 0
    while row := library.flashsteps_kernel(int(step), problem.encode(), index):
        found.append((ctypes.cast(row, ctypes.POINTER(ctypes.c_char_p))[0].decode(), ctypes.c_void_p(row)))
        index += 1
    return found


def check(library, status):
    if status in (NOT_SUPPORTED, INVALID_VALUE) and (message := library.refusal().decode()):
        library.refusal_clear()
        raise Refused(message)
    if status:
        raise RuntimeError(f"CUDA error {status}")


def add_copy(cell):
    """Returns a copy that reads and writes as many bytes as the problem must."""
    source = torch.randn(int(cell.moved) // 8, device="cuda")
    target = torch.empty_like(source)
    cell.entrants.append(("copy", "ceiling", lambda: target.copy_(source)))


def softmax_cells(library, _step, stream, _flash):
    for rows, cols in SOFTMAX_SHAPES:
        x = torch.randn(rows, cols, device="cuda")
        y = torch.empty_like(x)
        cell = Cell(f"{rows}x{cols}", 5.0 * rows * cols, 8.0 * rows * cols, [x], y)
        for name, row in kernels_of(library, "03", "softmax"):
            def ours(row=row, x=x, y=y, rows=rows, cols=cols):
                check(library, library.softmax_run(row, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), rows,
                                                   cols, stream))
                return y
            cell.entrants.append((name, "rung", ours))
        cell.entrants.append(("torch_softmax", "peer", lambda: functional.softmax(x, dim=1)))
        add_copy(cell)
        yield cell


def visible_pairs(seq_q, seq_kv, causal):
    if not causal:
        return seq_q * seq_kv
    corner = min(seq_q, seq_kv)
    return corner * (seq_kv - corner) + corner * (corner + 1) / 2


def attention_peer(backend, query, key, value, causal):
    @torch.inference_mode()
    def peer():
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(query, key, value, is_causal=causal,
                                                           enable_gqa=key.shape[1] != query.shape[1])
    return peer


def xformers_flash3():
    """Loads FlashAttention-3 from xformers. Only that library is loaded: the rest is bound to one PyTorch."""
    found = importlib.util.find_spec("xformers")
    if found is None:
        raise ImportError("no xformers")
    torch.ops.load_library(next(pathlib.Path(found.origin).parent.glob("flash_attn_3/_C*.so")))
    return lambda query, key, value, causal, num_splits=1: torch.ops.flash_attn_3.fwd(
        query, key, value, softmax_scale=query.shape[-1] ** -0.5, is_causal=causal, num_splits=num_splits)


def split_keys(forward):
    """Lets FlashAttention-3 choose how many blocks share the keys of a few queries; unasked it takes one."""
    return lambda query, key, value, causal: forward(query, key, value, causal=causal,
                                                     num_splits=int(query.shape[1] == key.shape[1]))


class Flash:
    """FlashAttention-3 and -4, as far as they load: functions (query, key, value, causal=) by (name, element type), of which
    `backward` holds those that have gradients, too, and the packages that they come from."""

    def __init__(self, wanted):
        self.forward, self.backward, self.packages = {}, {}, set()
        sources = [("flash3", torch.bfloat16, "fa3_fwd_interface", "fa3-fwd"),
                   ("flash3", torch.bfloat16, "flash_attn_interface", "flash-attn-3"),
                   ("flash3", torch.bfloat16, None, "xformers"),
                   ("flash3", torch.float16, "flash_attn_interface", "flash-attn-3"),
                   ("flash3", torch.float16, None, "xformers"),
                   ("flash4", torch.float16, "flash_attn.cute", "flash-attn-4"),
                   ("flash4", torch.bfloat16, "flash_attn.cute", "flash-attn-4")]
        for name, element, module, package in sources if wanted else []:
            if (name, element) in self.backward:
                continue
            try:
                version = importlib.metadata.version(package)
                forward = importlib.import_module(module).flash_attn_func if module else xformers_flash3()
            except (ImportError, OSError, RuntimeError, StopIteration) as error:
                print(f"{name}, {str(element)[6:]}: not compared: {package}: {str(error).splitlines()[0]}", flush=True)
                continue
            if name == "flash3":
                forward = split_keys(forward)
            self.forward.setdefault((name, element), forward)
            if package != "fa3-fwd":
                self.backward[name, element] = forward
            self.packages.add(f"{package} {version}")


def flash_peer(forward, inputs, causal):
    """The inputs have the layout that these kernels want, [batch, seq, heads, head_dim]. They may choose it, so it is not
    timed."""
    def peer():
        out = forward(*inputs, causal=causal)
        return (out[0] if isinstance(out, (tuple, list)) else out).transpose(1, 2)
    return peer


def flash_gradients(forward, inputs, causal, gradient):
    """Everything from dO to dQ, dK and dV; all in the layout that these kernels want, as in flash_peer."""
    result = forward(*inputs, causal=causal)
    out = result[0] if isinstance(result, (tuple, list)) else result
    if out.requires_grad:
        def gradients():
            return torch.autograd.grad(out, inputs, gradient, retain_graph=True)
    else:
        results = tuple(torch.empty_like(tensor) for tensor in inputs)

        def gradients():
            torch.ops.flash_attn_3.bwd(gradient, *inputs, out, result[1], *results, softmax_scale=inputs[0].shape[-1] ** -0.5,
                                       is_causal=causal)
            return results
    return lambda: tuple(tensor.transpose(1, 2) for tensor in gradients())


def add_rungs(cell, library, kernels, call, workspace_of, run):
    """Adds our kernels, with a workspace that they share. One that needs more than there is will be refused."""
    needs = [workspace_of(row, ctypes.byref(call)) for _, row in kernels]
    fits = [need for need in needs if need < torch.cuda.mem_get_info()[0] // 2]
    cell.workspace = torch.empty(max(fits, default=0) + 256, device="cuda", dtype=torch.uint8)
    call.workspace = cell.workspace.data_ptr() + -cell.workspace.data_ptr() % 256
    output = cell.output  # a function that refers to the cell would keep its tensors until Python's collector runs
    for (name, row), need in zip(kernels, needs):
        def ours(row=row, need=need):
            if need not in fits:
                raise Refused(f"needs {need / 1e9:.1f} GB of workspace")
            check(library, run(row, ctypes.byref(call)))
            return output
        cell.entrants.append((name, "rung", ours))


def backward_peer(backend, inputs, causal, gradient):
    """Everything from dO to dQ, dK and dV. The forward pass before it is not timed."""
    with sdpa_kernel(backend):
        out = functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def backward_cell(library, step, stream, sizes, label, peers, element=None, flash=None):
    batch, heads, seq, head_dim, causal = sizes
    element = element or torch.float32
    inputs = [torch.randn(batch, heads, seq, head_dim, device="cuda", dtype=element).requires_grad_() for _ in range(3)]
    gradient = torch.randn_like(inputs[0]).detach()
    with torch.no_grad():
        if element == torch.float32:
            out, lse = torch.ops.aten._scaled_dot_product_efficient_attention(*inputs, None, True, is_causal=causal)[:2]
        else:
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention(*inputs, is_causal=causal)[:2]
        out, lse = out.contiguous(), lse[..., :seq].float().contiguous()
    gradients = torch.empty(3, batch, heads, seq, head_dim, device="cuda", dtype=element)
    arrays = dict(zip("QKV", inputs)) | {"O": out, "LSE": lse, "dO": gradient} | dict(zip(("dQ", "dK", "dV"), gradients))
    call = AttentionBackward(batch=batch, heads=heads, kv_heads=heads, seq_q=seq, seq_kv=seq, head_dim=head_dim, causal=causal,
                             scale=head_dim ** -0.5, type={torch.float16: F16, torch.bfloat16: BF16}.get(element, F32),
                             stream=stream, **{name: array.data_ptr() for name, array in arrays.items()})
    moved = sum(array.numel() * array.element_size() for array in arrays.values())
    flops = 10.0 * visible_pairs(seq, seq, causal) * head_dim * batch * heads
    cell = Cell(label, flops, float(moved), [gradient], gradients)  # the others belong together, and stay
    cell.arrays = arrays
    add_rungs(cell, library, kernels_of(library, step, "attention_backward"), call, library.flashsteps_backward_workspace,
              library.attention_backward_run)
    prepared = [(name, backward_peer, backend, inputs, gradient) for name, backend in peers]
    newest = [(name, forward) for (name, of), forward in (flash.backward.items() if flash else ()) if of == element]
    if newest:
        *theirs, their_gradient = (tensor.detach().transpose(1, 2).contiguous() for tensor in (*inputs, gradient))
        theirs = [tensor.requires_grad_() for tensor in theirs]
        prepared += [(name, flash_gradients, forward, theirs, their_gradient) for name, forward in newest]
        cell.inputs.append(their_gradient)
    for name, prepare, function, of, by in prepared:
        try:
            cell.entrants.append((name, "peer", prepare(function, of, causal, by)))
        except RuntimeError as error:
            print(f"{label}: {name}: {str(error).splitlines()[0]}", flush=True)
    add_copy(cell)
    return cell


def attention_cell(library, step, stream, sizes, label, peers, element=None, flash=None, kv_heads=None):
    batch, heads, seq_q, seq_kv, head_dim, causal = sizes
    element = element or torch.float32
    query = torch.randn(batch, heads, seq_q, head_dim, device="cuda", dtype=element)
    key = torch.randn(batch, kv_heads or heads, seq_kv, head_dim, device="cuda", dtype=element)
    value = torch.randn_like(key)
    out = torch.empty_like(query)
    lse = torch.empty(batch, heads, seq_q, device="cuda")
    call = Attention(batch=batch, heads=heads, kv_heads=key.shape[1], seq_q=seq_q, seq_kv=seq_kv, head_dim=head_dim, causal=causal,
                     scale=head_dim ** -0.5, type={torch.float16: F16, torch.bfloat16: BF16}.get(element, F32),
                     Q=query.data_ptr(), K=key.data_ptr(), V=value.data_ptr(), O=out.data_ptr(), LSE=lse.data_ptr(),
                     stream=stream)
    moved = sum(t.numel() * t.element_size() for t in (query, key, value, out, lse))
    flops = 4.0 * visible_pairs(seq_q, seq_kv, causal) * head_dim * batch * heads
    cell = Cell(label, flops, float(moved), [query, key, value], out)
    cell.arrays = lse

    kernels = kernels_of(library, step)
    if element == torch.bfloat16 and seq_q == seq_kv:
        kernels = kernels[-1:]  # the other kernels are as fast in this type as in half precision
    add_rungs(cell, library, kernels, call, library.flashsteps_workspace, library.attention_run)
    for name, backend in peers:
        cell.entrants.append((name, "peer", attention_peer(backend, query, key, value, causal)))
    newest = [(name, forward) for (name, of), forward in (flash.forward.items() if flash else ()) if of == element]
    theirs = [tensor.transpose(1, 2).contiguous() for tensor in (query, key, value)] if newest else []
    cell.inputs += theirs
    cell.entrants += [(name, "peer", flash_peer(forward, theirs, causal)) for name, forward in newest]
    add_copy(cell)
    return cell


def per_sequence(query, key, value, lengths):
    """PyTorch's kernels take no lengths: each sequence is a call."""
    def peer():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.cat([functional.scaled_dot_product_attention(query[b:b + 1], key[b:b + 1, :, :keys], value[b:b + 1, :, :keys],
                                                                      enable_gqa=key.shape[1] != query.shape[1])
                              for b, keys in enumerate(lengths)])
    return peer


def flash3_decode(query, pools, lengths, table):
    """FlashAttention-3 with lengths, and with pages, whose heads come behind their keys."""
    theirs = [tensor.transpose(1, 2).contiguous() for tensor in (query, *pools)]

    def peer():
        out = torch.ops.flash_attn_3.fwd(*theirs, seqused_k=lengths, page_table=table, softmax_scale=query.shape[-1] ** -0.5,
                                         is_causal=False, num_splits=0)
        return (out[0] if isinstance(out, (tuple, list)) else out).transpose(1, 2)
    return peer, theirs


def flashinfer_decode(flashinfer, query, pools, lengths, table):
    """FlashInfer, for one query a sequence. What it plans is not timed."""
    page, room = pools[0].shape[2], torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    used = [-(-keys // page) for keys in lengths]
    begins = torch.tensor([0, *itertools.accumulate(used)], dtype=torch.int32, device="cuda")
    pages = torch.cat([row[:count] for row, count in zip(table, used)])
    last = torch.tensor([(keys - 1) % page + 1 for keys in lengths], dtype=torch.int32, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "HND", use_tensor_cores=query.shape[1] > pools[0].shape[1])
    wrapper.plan(begins, pages, last, query.shape[1], pools[0].shape[1], query.shape[3], page, q_data_type=query.dtype,
                 kv_data_type=query.dtype)
    one = query.squeeze(2)
    return lambda: wrapper.run(one, tuple(pools)).unsqueeze(2)


def decode_cell(library, step, stream, shape, page, mixed, flash):
    """A cell of few queries and many keys in bfloat16, whose keys come in pages (0: they don't), or of which sequences have some
    (mixed: between one and all)."""
    batch, heads, kv_heads, queries, keys = shape
    new = {"device": "cuda", "dtype": torch.bfloat16}
    query, out = (torch.randn(batch, heads, queries, 128, **new) for _ in range(2))
    plain = [torch.randn(batch, kv_heads, keys, 128, **new) for _ in range(2)]
    lse, table, lengths, pools = torch.empty(batch, heads, queries, device="cuda"), None, [keys] * batch, plain
    if mixed:
        lengths = [random.Random(b).randint(1, keys) for b in range(batch)]
    if page:
        table = torch.randperm(batch * keys // page, device="cuda", dtype=torch.int32).view(batch, keys // page)
        pools = [torch.empty(batch * keys // page, kv_heads, page, 128, **new) for _ in range(2)]
        for pool, tensor in zip(pools, plain):
            pool[table.flatten().long()] = tensor.view(batch, kv_heads, -1, page, 128).transpose(1, 2).flatten(0, 1)
    on_device = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    call = Attention(batch=batch, heads=heads, kv_heads=kv_heads, seq_q=queries, seq_kv=keys, head_dim=128, scale=128 ** -0.5, type=BF16,
                     Q=query.data_ptr(), K=pools[0].data_ptr(), V=pools[1].data_ptr(), O=out.data_ptr(), LSE=lse.data_ptr(), stream=stream,
                     lengths=on_device.data_ptr() if mixed else None, pages=table.data_ptr() if page else None, page_size=page,
                     pool_pages=len(pools[0]) if page else 0)
    moved = 2.0 * sum(lengths) * kv_heads * 128 * 2 + 2.0 * query.numel() * 2 + lse.numel() * 4
    label = f"B{batch} H{heads}/{kv_heads} {queries}x{keys} d128 decode{f' pages {page}' * bool(page)}{' mixed' * mixed} bf16"
    cell = Cell(label, 4.0 * sum(lengths) * heads * queries * 128, moved, [query, *plain], out)
    cell.inputs += pools if page else []
    cell.arrays = table, on_device, lse
    add_rungs(cell, library, kernels_of(library, step), call, library.flashsteps_workspace, library.attention_run)
    if mixed:
        cell.entrants.append(("torch_flash2", "peer", per_sequence(query, *plain, lengths)))
    else:
        cell.entrants += [(name, "peer", attention_peer(backend, query, *plain, False)) for name, backend in
                          (("torch_flash2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION))]
    if ("flash3", torch.bfloat16) in flash.backward:
        peer, theirs = flash3_decode(query, pools, on_device, table)
        cell.entrants.append(("flash3", "peer", peer))
        cell.inputs += theirs
    if page and queries == 1 and importlib.util.find_spec("flashinfer"):
        try:
            peer = flashinfer_decode(importlib.import_module("flashinfer"), query, pools, lengths, table)
            cell.entrants.append(("flashinfer", "peer", peer))
        except (ImportError, RuntimeError) as error:
            print(f"{label}: flashinfer: {str(error).splitlines()[0]}", flush=True)
    add_copy(cell)
    return cell


def float_cells(library, step, stream, _flash):
    peers = [("torch_efficient", SDPBackend.EFFICIENT_ATTENTION)]
    shapes = [(16, 256), (16, 512), (16, 1024), (4, 4096)] if step == "04" else [(64, 256), (32, 512), (16, 1024), (8, 2048), (4, 4096)]
    for batch, seq in shapes:
        yield attention_cell(library, step, stream, (batch, 32, seq, seq, 64, False), f"B{batch} H32 N{seq} d64",
                             peers)
    if step == "05":
        yield attention_cell(library, step, stream, (1, 8, 1, 131072, 64, False), "B1 H8 1x131072 d64", peers)
        for batch, seq in shapes:
            yield backward_cell(library, step, stream, (batch, 32, seq, 64, False), f"B{batch} H32 N{seq} d64 backward", peers)


def half_cells(library, step, stream, flash):
    peers = [("torch_flash2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)]
    elements = ((torch.float16, ""), (torch.bfloat16, " bf16"))
    lengths = (512, 1024, 2048, 4096, 8192, 16384)
    for (element, suffix), head_dim, causal, seq in itertools.product(elements, (64, 128), (True, False), lengths):
        label = f"N{seq} d{head_dim} {'causal' if causal else 'full'}{suffix}"
        yield attention_cell(library, step, stream, (16384 // seq, 2048 // head_dim, seq, seq, head_dim, causal), label,
                             peers, element, flash)
    for causal, seq in itertools.product((True, False), lengths[2:]):
        label = f"B2 H64/8 N{seq} d128 {'causal' if causal else 'full'} bf16"
        yield attention_cell(library, step, stream, (2, 64, seq, seq, 128, causal), label, peers, torch.bfloat16, flash, 8)
    for batch, heads, kv_heads, queries, keys in DECODE_SHAPES:
        label = f"B{batch} H{heads}/{kv_heads} {queries}x{keys} d128 decode bf16"
        yield attention_cell(library, step, stream, (batch, heads, queries, keys, 128, False), label, peers, torch.bfloat16, flash,
                             kv_heads)
    for shape, (page, mixed) in itertools.product(PAGED_SHAPES, [*((page, False) for page in PAGES), (0, True), (PAGES[1], True)]):
        yield decode_cell(library, step, stream, shape, page, mixed, flash)
    for (element, suffix), head_dim, causal, seq in itertools.product(elements, (64, 128), (True, False), lengths):
        label = f"N{seq} d{head_dim} {'causal' if causal else 'full'} backward{suffix}"
        yield backward_cell(library, step, stream, (16384 // seq, 2048 // head_dim, seq, head_dim, causal), label, peers, element,
                            flash)


class Race:
    def __init__(self, step, writer, sensors, slice_ms):
        self.step, self.writer, self.sensors, self.slice_ms = STEPS[step], writer, sensors, slice_ms
        self.rates = {}
        self.failed = False
        size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.empty(size, device="cuda", dtype=torch.uint8)

    def lap(self, run, runs=1, flush=True, lead=0):
        """Returns (ms a run, MHz, W) of `runs` runs, after `lead` untimed ones."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if flush:
            self.flush.zero_()
        if runs == 1:
            torch.cuda._sleep(LEAD_CYCLES)  # the kernel is then queued before the clock starts
        for _ in range(lead):
            run()
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        begin.synchronize()
        clock, power = self.sensors.read()  # read while the device works
        end.synchronize()
        return begin.elapsed_time(end) / runs, clock, power

    def skip(self, cell, name, why):
        self.writer.comment(f"skipped: {cell.label}, {name}: {why}")
        print(f"{cell.label:22} skipped    {name:24} {why}", flush=True)

    def qualify(self, cell):
        """Returns the entrants that are right and fast enough to be timed, each with its difference from the first peer."""
        limit = {torch.float16: 5e-3, torch.bfloat16: 2e-2}.get(cell.output.dtype, 1e-4)
        expected, fit = None, []
        for name, role, run in sorted(cell.entrants, key=lambda entrant: entrant[1] != "peer"):
            foreseen = cell.work() / self.rates[name] if name in self.rates else 0.0
            if foreseen > SLOWEST_MS:
                self.skip(cell, name, f"would take about {foreseen / 1e3:.1f} s a lap")
                continue
            cell.output.fill_(float("nan"))
            try:
                run()  # this loads the kernel, and lets a library choose one
                milliseconds, _, _ = self.lap(run, flush=False)
                result = run() if role == "peer" else cell.output
                result = torch.stack(result) if isinstance(result, tuple) else result
            except (Refused, RuntimeError) as error:
                if role != "peer" and not isinstance(error, Refused):
                    raise  # a peer's: a backend of PyTorch does not support the shape
                self.skip(cell, name, str(error).splitlines()[0])
                continue
            self.rates[name] = cell.work() / milliseconds
            difference = 0.0
            if role != "ceiling":
                if expected is None:
                    expected = result.clone()
                else:
                    # The comparison goes piece by piece, because a float copy of everything may not fit.
                    pairs = zip(result.flatten().split(1 << 26), expected.flatten().split(1 << 26))
                    sums = [((a.float() - b.float()).square().sum(dtype=torch.float64).item(),
                             b.float().square().sum(dtype=torch.float64).item()) for a, b in pairs]
                    difference = (sum(s[0] for s in sums) / sum(s[1] for s in sums)) ** 0.5
                if not difference <= limit:
                    self.skip(cell, name, f"differs by {difference:.1e}: not timed")
                    self.failed = True
                    continue
            fit.append((name, role, run, difference))
        return fit

    def cold(self, cell, fit):
        samples = {entrant[0]: [] for entrant in fit}
        for _ in range(COLD_ROUNDS):
            for tensor in cell.inputs:
                tensor.normal_()
            for name, _role, run, _difference in random.sample(fit, len(fit)):
                laps = samples[name]
                if len(laps) >= 3 and sum(lap[0] for lap in laps) > COLD_BUDGET_MS:
                    continue
                slow = bool(laps) and laps[0][0] > 50.0
                torch.cuda.synchronize()
                time.sleep(REST_S)
                if not slow:
                    self.lap(run)
                laps.extend(self.lap(run) for _ in range(1 if slow else COLD_BURST))
        return samples

    def sustained(self, cell, fit, names):
        chosen = [entrant for entrant in fit if entrant[0] in names or entrant[1] != "rung"]
        samples = {entrant[0]: [] for entrant in chosen}
        for _ in range(SUSTAINED_ROUNDS):
            for name, _role, run, _difference in random.sample(chosen, len(chosen)):
                runs = max(1, min(1000, int(self.slice_ms * self.rates[name] / cell.work())))
                samples[name].append(self.lap(run, runs, flush=False, lead=runs))
        return samples

    def report(self, cell, fit, protocol, samples):
        for name, role, _run, difference in fit:
            laps = sorted(samples.get(name, []))
            if not laps:
                continue
            times = [lap[0] for lap in laps]
            median = statistics.median(times)
            flops = 0.0 if role == "ceiling" else cell.flops
            clock, power = statistics.mean(lap[1] for lap in laps), statistics.mean(lap[2] for lap in laps)
            self.writer.row([self.step, cell.label, protocol, name, role, f"{flops:.0f}", f"{cell.moved:.0f}",
                             f"{median:.6f}", f"{times[round(0.1 * (len(times) - 1))]:.6f}",
                             f"{times[round(0.9 * (len(times) - 1))]:.6f}", len(times), f"{flops / median * 1e-9:.3f}",
                             f"{cell.moved / median * 1e-6:.1f}", f"{difference:.2e}", f"{clock:.0f}", f"{power:.0f}"])
            print(f"{cell.label:22} {protocol:10} {name:24} {role:8} {median:10.4f} ms {flops / median * 1e-9:9.2f} "
                  f"TFLOP/s {cell.moved / median * 1e-6:8.0f} GB/s {clock:5.0f} MHz {power:4.0f} W", flush=True)

    def run(self, cell):
        fit = self.qualify(cell)
        self.report(cell, fit, "cold", self.cold(cell, fit))
        rungs = [entrant[0] for entrant in fit if entrant[1] == "rung"]
        fastest = max((self.rates[name] for name in rungs), default=0.0)
        kept = {name for name in rungs if self.rates[name] > 0.9 * fastest} | set(rungs[-1:])
        self.report(cell, fit, "sustained", self.sustained(cell, fit, kept))


class Writer:
    def __init__(self, file):
        self.file, self.csv = file, csv.writer(file, lineterminator="\n")

    def comment(self, text):
        self.file.write(f"# {text}\n")

    def row(self, values):
        self.csv.writerow(values)
        self.file.flush()


def write_header(writer, sensors, packages, slice_ms):
    properties = torch.cuda.get_device_properties(0)
    writer.comment(f"device: {properties.name}, sm_{properties.major}{properties.minor}, "
                   f"{properties.multi_processor_count} multiprocessors, {properties.L2_cache_size >> 20} MB of L2 cache")
    writer.comment(f"versions: driver {sensors.driver()}; PyTorch {torch.__version__}; CUDA {torch.version.cuda}; "
                   f"cuDNN {torch.backends.cudnn.version()}" + "".join(f"; {package}" for package in packages))
    writer.comment(f"date: {datetime.date.today()}")
    writer.comment(f"cold: {1000 * REST_S:.0f} ms of rest, one untimed run, then laps each after the L2 cache was "
                   f"overwritten; order shuffled, fresh inputs each of {COLD_ROUNDS} rounds")
    writer.comment(f"sustained: {slice_ms:.0f} ms back to back untimed, then as long timed; order shuffled each of "
                   f"{SUSTAINED_ROUNDS} rounds")
    writer.comment("ms: medians; p10 and p90 beside them. bytes: each input read and each output written once. "
                   "difference: ||out - first peer's|| / ||first peer's||")
    writer.row(COLUMNS)


def progress(done, label):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K[{done}] {label}")
        sys.stderr.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared_object")
    parser.add_argument("step")
    parser.add_argument("out")
    parser.add_argument("--cells", metavar="REGEX", default="", help="only shapes whose label has a match")
    parser.add_argument("--kernels", metavar="NAME", nargs="+", help="of our kernels only these")
    parser.add_argument("--peers", metavar="NAME", nargs="+", help="of the others only these")
    parser.add_argument("--slice", metavar="MS", type=float, default=60.0, help="length of a sustained lap [%(default)s]")
    arguments = parser.parse_args()
    if arguments.step not in STEPS:
        print(f"step {arguments.step}: no kernel of PyTorch's to compare with")
        return 0
    if torch is None or not torch.cuda.is_available():
        print("skipped: no PyTorch with a GPU in this Python, so nothing was compared with PyTorch's kernels")
        return 0

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    library = load(arguments.shared_object)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    sensors = Sensors(getattr(torch.cuda.get_device_properties(0), "uuid", ""))
    cells = {"03": softmax_cells, "06": half_cells}.get(arguments.step, float_cells)

    flash = Flash(arguments.step == "06")

    def wanted(name, role):
        names = arguments.kernels if role == "rung" else arguments.peers
        return not names or name in names

    with open(arguments.out, "w", encoding="utf-8") as file:
        writer = Writer(file)
        if arguments.kernels:
            writer.comment(f"of the rungs only: {' '.join(arguments.kernels)}")
        if arguments.peers:
            writer.comment(f"of the others only: {' '.join(arguments.peers)}")
        write_header(writer, sensors, sorted(flash.packages), arguments.slice)
        race = Race(arguments.step, writer, sensors, arguments.slice)
        for done, cell in enumerate(cells(library, arguments.step, stream, flash)):
            if re.search(arguments.cells, cell.label):
                progress(done, cell.label)
                cell.entrants = [entrant for entrant in cell.entrants if wanted(*entrant[:2])]
                race.run(cell)
            del cell
    return 1 if race.failed else 0


if __name__ == "__main__":
    sys.exit(main())
