"""On the way to a decision stands no arithmetic that differs between machines, so that a replay gives the same bits.

BLAS adds up in an order that depends on the CPU; exponentials, logarithms and powers differ in their last bit from one
math library to the next, or with the vector instructions that there are; so does `interp`, which may fuse a
multiplication with an addition. Square roots are exact by IEEE 754.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import controller.policy

POLICY = Path(controller.policy.__path__[0])
BLAS = {
    "convolve", "corrcoef", "correlate", "cov", "dot", "einsum", "inner", "linalg", "matmul", "matvec", "polyfit",
    "tensordot", "vdot", "vecdot", "vecmat",
}  # fmt: skip
TRANSCENDENTAL = {
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cbrt", "cos", "cosh", "exp", "exp2", "expm1", "float_power", "geomspace", "hypot", "i0",
    "interp", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logspace", "pow", "power", "sin", "sinc",
    "sinh", "tan", "tanh",
}  # fmt: skip
OTHERS = {"fft", "random"}
OF_NUMPY = BLAS | TRANSCENDENTAL | OTHERS  # not to be used
OF_MATH = {"ceil", "floor", "inf", "isfinite", "isnan", "nan", "sqrt"}  # to be used
MODULES = {"cmath", "random", "scipy", "statistics"}


def offences(source: str) -> list[str]:
    """`line: code` of all that may not be there."""
    return [f"{node.lineno}: {ast.unparse(node)}" for node in _offending(ast.parse(source))]


def _offending(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield node
            case ast.BinOp(op=ast.Pow(), left=base, right=power) if not _is_exact(base, power):
                yield node
            case ast.AugAssign(op=ast.Pow()):
                yield node
            case ast.Attribute(value=ast.Name("np" | "numpy"), attr=name) if name in OF_NUMPY:
                yield node
            case ast.Attribute(value=ast.Name("math"), attr=name) if name not in OF_MATH:
                yield node
            case ast.Call(func=ast.Attribute(attr="dot")) | ast.Call(func=ast.Name("pow")):
                yield node
            case ast.Import(names=names) if any(not _may_import(each) for each in names):
                yield node
            case ast.ImportFrom(module=module, names=names) if _takes(module or "", {each.name for each in names}):
                yield node


def _is_exact(base: ast.expr, power: ast.expr) -> bool:
    """Squares are products, powers of literals the compiler's, and those of lengths whole numbers."""
    match base, power:
        case _, ast.Constant(2):
            return True
        case ast.Constant() | ast.Call(func=ast.Name("len")), ast.Constant(int()):
            return True
    return False


def _may_import(alias: ast.alias) -> bool:
    """numpy by its usual name alone, or what follows would not be seen here."""
    top = alias.name.partition(".")[0]
    return top not in MODULES and (top != "numpy" or (alias.name, alias.asname) == ("numpy", "np"))


def _takes(module: str, names: set[str]) -> bool:
    top = module.partition(".")[0]
    if top == "math":
        return not names <= OF_MATH
    return top in MODULES or (top == "numpy" and module != "numpy.typing")


@pytest.mark.parametrize(
    "line",
    [
        "costs @ weights", "costs @= weights", "np.dot(a, b)", "a.dot(b)", "np.einsum('ij,j', a, b)",
        "np.linalg.solve(a, b)", "np.exp(a)", "np.logaddexp.reduce(a)", "np.interp(a, b, c)", "math.log(2)",
        "math.exp(a)", "a**0.5", "a**b", "a**3", "a **= 0.5", "pow(a, b)", "np.random.default_rng()", "import numpy",
        "import scipy.stats", "from math import log", "from numpy import exp", "from numpy.linalg import solve",
    ],
)  # fmt: skip
def test_what_differs_between_machines_is_found(line: str) -> None:
    assert offences(line)


@pytest.mark.parametrize(
    "line",
    ["np.sqrt(a)", "math.sqrt(2)", "from math import ceil, sqrt", "a**2", "2.0**53", "len(a) ** 3", "self._log.deny(a)",
     "import numpy as np", "from numpy.typing import NDArray", "_log(a)"],
)  # fmt: skip
def test_what_is_exact_is_not(line: str) -> None:
    assert not offences(line)


def test_no_decision_depends_on_the_machine() -> None:
    files = sorted(POLICY.rglob("*.py"))
    assert len(files) > 50
    found = {str(path.relative_to(POLICY)): offences(path.read_text()) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}
