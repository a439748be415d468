"""Every GPU kernel compiles, for a GPU that need not be there: the interpreter knows nothing of types and layouts."""

import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

MODULES = (
    "compool.ops._cuda.forest_kernels",
    "compool.ops._cuda.graded_kernels",
    "compool.ops._cuda.kernels",
    "compool.ops._cuda.row_kernels",
    "compool.ops._cuda.similarity_kernels",
    "compool.replicas.kernels._cuda_kernels",
    "compool.replicas.kernels._cuda_norm_kernels",
    "compool.replicas.kernels._cuda_padded_kernels",
    "compool.replicas.kernels._cuda_product_kernels",
)
# Pointers are to float32, and other arguments are int32, unless their names say otherwise
TYPES = {
    "*i64": "graph_ids node_ptr edge_ptr edge_start node rows ptr row_ptr graph_ptr key index num_counted limit cluster"
    " num_batches first graph group batch tree_ptr part children size table keys root order source target best chosen",
    "*i32": "edge_index neighbour parent rank flags is_root is_first short_keys edge_of low high above position ids"
    " kept",
    "*i1": "merged counted alone candidate",
    "i32": "stride last plus",
}
INLINE = ("number_node", "raise_flag")  # what other kernels call
OTHERWISE = {
    ("fold_key", "out"): "*i64",
    ("split_keys", "out"): "*i64",
    ("place_edges", "out"): "*i32",
    ("gather_graphs", "out"): "*i32",
    ("row_starts", "row_ptr"): "*i64",
    ("offer_edges", "left"): "*i32",
    ("merge_tree", "ends"): "*i64",
    **dict.fromkeys(
        (("graded_share", "begin"), ("graded_share", "share"), ("graded_share_backward", "total")), "*fp64"
    ),
}
CONSTANTS = {
    "PRECISION": "tf32x3",
    "SCORE": "tanh",
    "WHAT": "grads",
    "STEPS": 12,
    "NONE": 2**63 - 1,
    "BITS": 32,
    "FEW": 16,
    "EDGES": 64,
    "LONG": 32,
} | {
    **{"CHUNK": 512, "SEGMENTS": 128, "BLOCK": 128},
    **dict.fromkeys(("D", "A", "B", "INPUTS", "OUTPUTS", "COLUMNS", "INNER", "LEFT", "RIGHT"), 32),
}


def _types(kernel: str, name: str) -> str:
    found = next((kind for kind, names in TYPES.items() if name in names.split()), "i32" if name.isupper() else "*fp32")
    return OTHERWISE.get((kernel, name), found)


def _compile_all() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for module in MODULES:
        for name, kernel in vars(import_module(module)).items():
            if name.startswith("_") or name in INLINE or not isinstance(kernel, triton.runtime.JITFunction):
                continue
            constants: dict[str, Any] = {
                one.name: CONSTANTS.get(one.name, 8 if one.name == "ROWS" else True)
                for one in kernel.params
                if one.is_constexpr
            }
            if "dot" in kernel.src:
                constants["ROWS"] = 64
            given = [one.name for one in kernel.params]
            signature = {one: "constexpr" if one in constants else _types(name, one) for one in given}
            for param in kernel.params:  # `launch` reuses a compiled kernel for other numbers
                if signature[param.name] == "i32" and not param.do_not_specialize:
                    raise TypeError(f"do_not_specialize of {name} lacks {param.name}")
            aligned = {(at,): [["tt.divisibility", 16]] for at, one in enumerate(given) if signature[one][0] == "*"}
            target = GPUTarget("cuda", 90, 32)
            values = {(given.index(one),): value for one, value in constants.items()}
            triton.compile(ASTSource(kernel, signature, values, aligned), target=target)
            if name == "grouped_linear":  # half precision
                signature = {one: "*fp16" if kind == "*fp32" else kind for one, kind in signature.items()}
                values[(given.index("PRECISION"),)] = "tf32"
                triton.compile(ASTSource(kernel, signature, values, aligned), target=target)
            if "SCORE" in constants:
                values[(given.index("SCORE"),)] = "hardtanh"
                triton.compile(ASTSource(kernel, signature, values, aligned), target=target)
            if "GROUPED" in constants:
                values[(given.index("GROUPED"),)] = False
                triton.compile(ASTSource(kernel, signature, values, aligned), target=target)
            if module == "compool.ops._cuda.forest_kernels":  # the other ways through, and other weights
                for kind in ("*fp32", "*fp64", "*i32", "*i64"):
                    flags = {"TIES": False, "LISTED": False, "WIDE": kind.endswith("64")}
                    values |= {(given.index(one),): value for one, value in flags.items() if one in constants}
                    signature |= {"weight": kind} if "weight" in given else {}
                    triton.compile(ASTSource(kernel, signature, values, aligned), target=target)
            print(name)


def test_all_kernels() -> None:
    pytest.importorskip("triton", reason="needs triton")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", __file__]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if "0 active drivers" in done.stderr or "Cannot find ptxas" in done.stderr:
        pytest.skip("this triton has no compiler for GPUs")
    assert done.returncode == 0, done.stdout.split()[-1:] + done.stderr.splitlines()[-5:]
    assert len(done.stdout.split()) > 30


if __name__ == "__main__":
    _compile_all()
