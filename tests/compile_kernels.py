"""Compile every kernel for a GPU that need not be there, and print what it takes, as JSON.

python tests/compile_kernels.py 90

Constants and resources are those of the launches themselves. A representative subset, because a kernel takes 2 to 7 s
to compile: SINCERE in bfloat16 with every tile that small, middle and large batches get; SupCon with the smallest;
both ways of writing a gradient; the other precisions once or twice each. What the older generation adds is its own
product instruction; bfloat16 shows that.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sincere.encoders import triton_halving as halving
from sincere.losses import sincere, supcon
from sincere.losses.backends import triton_launch as launch
from sincere.losses.backends import triton_set_launch as set_launch
from sincere.losses.backends.fused import Plan
from sincere.losses.backends.triton_fused import Program

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# Bytes of stack (spilled registers) that are known and accepted, with triton 3.9; 0 where nothing is said.
RECORDED: dict[tuple[int, str], int] = {
    (80, "sincere gradient bfloat16 64x128"): 496,
    (80, "anchors' gradient bfloat16 64x128"): 40,
    (80, "balanced gradient bfloat16 64x128"): 560,
    (90, "supcon gradient bfloat16 32x128"): 8,
    (90, "sincere gradient float32 64x32"): 24,
}
ELEMENTS = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32"}
INTEGERS = {
    "label_ptr": "*i64", "key_ptr": "*i64", "sorted_order_ptr": "*i64",
    "source_ptr": "*i32", "place_ptr": "*i32", "count_ptr": "*i32",
    "anchor_label_ptr": "*i64", "k_ptr": "*i64", "usable_ptr": "*u8", "labelled_ptr": "*u8",
}  # fmt: skip
UNALIGNED = ("ignore", "steps", "chunks")  # whole numbers that need not be multiples of 16 in a usual batch
LOSSES = {"sincere": sincere.COMBINATION, "supcon": supcon.OUT}


def plan_of(loss: str, cosine: bool = True) -> Plan:
    return Plan(LOSSES[loss], "mean", cosine, cosine, 1, -1, False)


def program(loss: str, n: int, d: int, dtype: torch.dtype, cosine: bool = True, matmul: str = "highest") -> Program:
    torch.set_float32_matmul_precision(matmul)
    return Program(plan_of(loss, cosine), n, d, dtype, learned=False)


def launches(capability: int) -> Iterator[tuple[str, launch.Launch, torch.dtype, torch.dtype]]:
    """Name, launch, precision of the products, precision of the embeddings."""
    half, single = torch.bfloat16, torch.float32
    small, middle, large = (program("sincere", n, 128, half) for n in (1024, 16384, 65536))
    for batch in (small, middle, large):
        yield "sincere statistics bfloat16", batch.statistics, half, half
        yield "sincere gradient bfloat16", batch.gradient, half, half
        yield "order", batch.arrange, half, half
    yield "order", middle.sort_chunks, half, half
    other = program("supcon", 1024, 128, half)
    yield "supcon statistics bfloat16", other.statistics, half, half
    yield "supcon gradient bfloat16", other.gradient, half, half
    how = launch.PRECISIONS["bfloat16"]
    one_sided = launch.gradient_launch(16384, 128, launch.Forces(True, "row", how, pushes=False, pulls=True))
    yield "anchors' gradient bfloat16", one_sided, half, half
    wanted = {"lse_neg", "mean_softplus"}
    yield (
        "balanced statistics bfloat16",
        launch.statistics_launch(16384, 128, True, wanted, how, balanced=True),
        half,
        half,
    )
    balanced = launch.Forces(True, "both", how, pushes=False, pulls=True, balanced=True)
    yield "balanced gradient bfloat16", launch.gradient_launch(16384, 128, balanced), half, half
    wide = program("sincere", 16384, 300, half)
    for pairs in wide.gradient.launches.values():
        yield "wide gradient bfloat16", pairs, half, half
    yield "wide return bfloat16", wide.give_back, half, half
    for contrasts in (1024, 8192, 65536):  # held by few threads, by many, and read again
        yield f"sets of {contrasts}", set_launch.values_launch(1024, contrasts), single, single
    yield "sets", set_launch.gradient_launch(1024, 1024), single, single
    if capability < 90:
        return
    batch = program("supcon", 1024, 128, torch.float16)
    yield "supcon statistics float16", batch.statistics, torch.float16, torch.float16
    batch = program("sincere", 1024, 128, single, cosine=False, matmul="high")
    yield "sincere gradient tf32", batch.gradient, single, single
    batch = program("sincere", 1024, 128, single)
    yield "sincere gradient float32", batch.gradient, single, single
    batch = program("supcon", 1024, 128, single)
    yield "supcon statistics float32", batch.statistics, single, single


def argument_type(name: str, of: launch.Launch, products: torch.dtype, embeddings: torch.dtype) -> str:
    if name in INTEGERS:
        return INTEGERS[name]
    if name in ("a_ptr", "c_ptr", "rows_ptr", "pair_ptr"):
        return ELEMENTS[products]
    returned = of.constants.get("RETURN") or of.kernel.__name__ == "return_kernel"
    if name == "x_ptr" or (returned and name in ("out_ptr", "result_ptr")):
        return ELEMENTS[embeddings]
    if name.endswith("_ptr"):
        return "*fp32"
    return "fp32" if name in ("temperature", "margin") else "i32"


def compiled(of: launch.Launch, products: torch.dtype, embeddings: torch.dtype, capability: int):
    names = of.kernel.arg_names
    constants = of.constants | ({"views": 1} if "views" in names else {})  # Triton makes a constant of every 1
    signature = {
        name: "constexpr" if name in constants else argument_type(name, of, products, embeddings) for name in names
    }
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(names)
        if signature[name].startswith("*") or (signature[name] == "i32" and name not in UNALIGNED)
    }
    source = ASTSource(of.kernel, signature, {(names.index(k),): v for k, v in constants.items()}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=of.options)


def compiled_halving(kernel, capability: int):
    """For bfloat16 grids of a number of channels that 16 divides."""
    constants = {"PIXELS": halving.PIXELS, "CHANNELS": halving.CHANNELS}
    kinds = {"grid_ptr": "*bf16", "largest_ptr": "*bf16", "gradient_ptr": "*bf16", "place_ptr": "*i8"}
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else kinds.get(name, "i32") for name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in kinds or name == "channels"}
    source = ASTSource(kernel, signature, {(names.index(k),): v for k, v in constants.items()}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32))


def resources(binary: bytes) -> tuple[int, int]:
    """Registers a thread and bytes of stack, read off the machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", text).groups()
    return int(registers), int(stack)


def named(name: str, of: launch.Launch) -> str:
    """With the tile, where it has one; otherwise with the kernel's name."""
    if "BM" not in of.constants:
        return f"{name} {of.kernel.__name__}"
    return f"{name} {of.constants['BM']}x{of.constants['BN']}"


def main() -> None:
    capability = int(sys.argv[1])
    rows = {}
    for name, of, products, embeddings in launches(capability):
        key = named(name, of)
        if key in rows:
            continue
        registers, stack = resources(compiled(of, products, embeddings, capability).asm["cubin"])
        recorded = RECORDED.get((capability, key), 0)
        rows[key] = {"kernel": key, "registers": registers, "stack": stack, "stack_recorded": recorded}
    for kernel in (halving.halve, halving.give_back):
        registers, stack = resources(compiled_halving(kernel, capability).asm["cubin"])
        key = f"halving {kernel.__name__}"
        rows[key] = {"kernel": key, "registers": registers, "stack": stack, "stack_recorded": 0}
    json.dump(list(rows.values()), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
