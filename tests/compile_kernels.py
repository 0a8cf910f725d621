"""Compile every kernel for a GPU that need not be there, and print what it takes, as JSON.

python tests/compile_kernels.py 90
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sincere.losses.backends import triton_backend as backend
from sincere.losses.backends import triton_kernels as kernels

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
# Bytes of stack (spilled registers) that are known and accepted; 0 where nothing is said.
RECORDED: dict[tuple[str, str, int], int] = {}
INTEGERS = ("label", "self", "start", "end", "count")


def pointer_type(name: str, element: str) -> str:
    if name in ("a_ptr", "c_ptr"):
        return f"*{element}"
    return "*i32" if any(word in name for word in INTEGERS) else "*fp32"


def compiled(kernel, constants: dict, tile: backend.Tile, element: str, capability: int):
    names = kernel.arg_names
    signature = {
        name: "constexpr"
        if name in constants
        else pointer_type(name, element)
        if name.endswith("_ptr")
        else "i32"
        if name.endswith("stride")
        else "fp32"
        for name in names
    }
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name].startswith("*")}
    source = ASTSource(kernel, signature, {(names.index(k),): v for k, v in constants.items()}, aligned)
    options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(binary: bytes) -> tuple[int, int]:
    """Registers a thread and bytes of stack, read off the machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", text).groups()
    return int(registers), int(stack)


def main() -> None:
    capability = int(sys.argv[1])
    rows = []
    precisions = [("bfloat16", "bf16"), ("tf32", "fp32"), ("float32", "fp32")]
    # What the older generation adds is its own product instruction; half precision shows that.
    for precision, element in precisions if capability >= 90 else precisions[:1]:
        how = backend.Precision.named(precision)
        width, dk, do = backend.padded_width(128, how)
        shared = {"D": width, "DK": dk, "BOUNDED": True, "UPCAST": False, "PRECISION": how.input_precision}
        for name, kernel, tile, own in (
            (
                "statistics",
                kernels.statistics_kernel,
                backend.statistics_tile(128, how.dtype),
                {"POSITIVES": True, "SOFTPLUS": True},
            ),
            (
                "gradient",
                kernels.gradient_kernel,
                backend.gradient_tile(128, how.dtype),
                {"DO": do, "SIDES": "both", "PUSH": True, "PULL": True},
            ),
        ):
            constants = shared | own | {"BM": tile.BM, "BN": tile.BN}
            registers, stack = resources(compiled(kernel, constants, tile, element, capability).asm["cubin"])
            recorded = RECORDED.get((name, precision, capability), 0)
            row = {"kernel": name, "precision": precision, "registers": registers}
            rows.append(row | {"stack": stack, "stack_recorded": recorded})
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
