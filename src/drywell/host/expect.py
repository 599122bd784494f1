"""`[expect]` expressions: NumPy over the buffers as they were before the launch, by a whitelisted syntax
tree, never `eval`.

Buffers are float64 arrays. What may be used: arithmetic, comparisons, indexing, the functions in
`FUNCTIONS` as `np.name`, the methods in `METHODS`, the references in `REFERENCES`, a lambda called on the
spot, list comprehensions over `range`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.errors import LaunchError

FUNCTIONS = frozenset(
    [
        "abs",
        "add",
        "append",
        "arange",
        "argmax",
        "argmin",
        "argsort",
        "array",
        "broadcast_to",
        "ceil",
        "clip",
        "concatenate",
        "cos",
        "cumsum",
        "diag",
        "dot",
        "einsum",
        "exp",
        "exp2",
        "expand_dims",
        "eye",
        "flip",
        "float64",
        "floor",
        "full",
        "full_like",
        "hstack",
        "int32",
        "int64",
        "isnan",
        "log",
        "log2",
        "matmul",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "moveaxis",
        "multiply",
        "ones",
        "ones_like",
        "outer",
        "pad",
        "prod",
        "repeat",
        "reshape",
        "roll",
        "round",
        "sign",
        "sin",
        "sort",
        "split",
        "sqrt",
        "square",
        "stack",
        "sum",
        "swapaxes",
        "take",
        "tanh",
        "tile",
        "transpose",
        "tril",
        "triu",
        "uint32",
        "uint8",
        "vstack",
        "where",
        "zeros",
        "zeros_like",
    ]
)
METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "astype",
        "clip",
        "copy",
        "cumsum",
        "dot",
        "flatten",
        "max",
        "mean",
        "min",
        "prod",
        "ravel",
        "repeat",
        "reshape",
        "round",
        "sort",
        "squeeze",
        "sum",
        "swapaxes",
        "take",
        "transpose",
    ]
)
ATTRIBUTES = frozenset(("T", "shape", "size", "ndim", "inf", "nan", "pi", "newaxis"))
_BUILTINS: dict[str, Any] = {
    "range": range,
    "abs": abs,
    "min": min,
    "max": max,
    "len": len,
    "int": int,
    "float": float,
    "bool": bool,
}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TAKE_SIZES = frozenset(
    ["arange", "broadcast_to", "eye", "full", "ones", "pad", "range", "repeat", "reshape", "tile", "zeros"]
)
LARGEST = 1 << 28
"""Elements an intermediate array may have, and the largest power or range."""
LONGEST = 10_000
"""Characters of an expression."""


def attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], heads: int, scale: float = 1.0, causal: bool = False
) -> NDArray[Any]:
    """Return softmax(scale q k^T) v per head; q, k, v are [heads * S, D], stacked head by head; `causal`
    masks j > i.
    """
    scores = _scores(q, k, heads, scale, causal)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.asarray((weights @ v.reshape(heads, -1, v.shape[-1])).reshape(q.shape[0], v.shape[-1]))


def log2_sum_exp(
    q: NDArray[Any], k: NDArray[Any], heads: int, scale: float = 1.0, causal: bool = False
) -> NDArray[Any]:
    """Return log2 of the row sums of exp(scale q k^T) per head, [heads * S]."""
    scores = _scores(q, k, heads, scale, causal)
    top = scores.max(-1)
    return np.asarray((np.log2(np.exp(scores - top[..., None]).sum(-1)) + top / np.log(2.0)).reshape(-1))


def _scores(q: NDArray[Any], k: NDArray[Any], heads: int, scale: float, causal: bool) -> NDArray[Any]:
    scores = q.reshape(heads, -1, q.shape[-1]) @ k.reshape(heads, -1, k.shape[-1]).transpose(0, 2, 1) * scale
    return np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf) if causal else scores


def softmax(x: NDArray[Any], axis: int = -1) -> NDArray[Any]:
    """Return the softmax of x along an axis."""
    weights = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis, keepdims=True))


def relu(x: NDArray[Any]) -> NDArray[Any]:
    """Return max(x, 0)."""
    return np.maximum(x, 0.0)


REFERENCES: dict[str, Callable[..., Any]] = {
    "attention": attention,
    "log2_sum_exp": log2_sum_exp,
    "softmax": softmax,
    "relu": relu,
}


def evaluate(expression: str, buffers: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the value of an expression over buffers (float64 arrays by name).

    Raises LaunchError naming what is not allowed or does not work, with its column.
    """
    if len(expression) > LONGEST:
        raise LaunchError(f"the expression has {len(expression)} characters, {LONGEST} are the limit")
    try:
        tree = ast.parse(expression, mode="eval")
        value = np.asarray(_Evaluator(expression).visit(tree.body, {**REFERENCES, **_BUILTINS, **buffers}))
    except SyntaxError as error:
        raise LaunchError(f"column {error.offset}: {error.msg} in '{expression}'") from None
    except (RecursionError, MemoryError):
        raise LaunchError(f"'{expression[:40]}...' is nested too deeply") from None
    except ValueError as error:  # a list of rows of different lengths, a null character
        raise LaunchError(f"'{expression}': {error}") from None
    if value.dtype.kind not in "biuf":
        raise LaunchError(f"'{expression}' gives {value.dtype} values, numbers are needed")
    return value


class _Evaluator:
    def __init__(self, expression: str) -> None:
        self.expression = expression

    def refuse(self, node: ast.AST, what: str) -> LaunchError:
        column = getattr(node, "col_offset", 0) + 1
        return LaunchError(f"column {column} of '{self.expression}': {what}")

    def visit(self, node: ast.AST, names: Mapping[str, Any]) -> Any:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.refuse(node, f"a {type(node).__name__} is not allowed in an expression")
        try:
            return method(node, names)
        except LaunchError:
            raise
        except (
            ValueError,
            TypeError,
            IndexError,
            ZeroDivisionError,
            OverflowError,
            MemoryError,
            KeyError,
        ) as error:
            raise self.refuse(node, str(error) or type(error).__name__) from None

    def _constant(self, node: ast.Constant, names: Mapping[str, Any]) -> Any:
        if not isinstance(node.value, (int, float, bool, str, type(None))):
            raise self.refuse(node, f"the constant {node.value!r} is not allowed")
        return node.value

    def _name(self, node: ast.Name, names: Mapping[str, Any]) -> Any:
        if node.id not in names:
            known = ", ".join(sorted(k for k, v in names.items() if isinstance(v, np.ndarray)))
            raise self.refuse(
                node, f"there is no buffer or function '{node.id}'; the buffers are {known or 'none'}"
            )
        return names[node.id]

    def _binop(self, node: ast.BinOp, names: Mapping[str, Any]) -> Any:
        left, right = self.visit(node.left, names), self.visit(node.right, names)
        if (
            isinstance(node.op, (ast.Pow, ast.LShift))
            and isinstance(left, int)
            and isinstance(right, int)
            and abs(right) > 64
        ):
            raise self.refuse(node, "this power is too large")
        return self._sized(node, _BINARY[type(node.op)](left, right))

    def _unaryop(self, node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
        return _UNARY[type(node.op)](self.visit(node.operand, names))

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> Any:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
            raise self.refuse(node, "compare two values at a time")
        return _COMPARE[type(node.ops[0])](
            self.visit(node.left, names), self.visit(node.comparators[0], names)
        )

    def _tuple(self, node: ast.Tuple, names: Mapping[str, Any]) -> Any:
        return tuple(self.visit(e, names) for e in node.elts)

    def _list(self, node: ast.List, names: Mapping[str, Any]) -> Any:
        return [self.visit(e, names) for e in node.elts]

    def _slice(self, node: ast.Slice, names: Mapping[str, Any]) -> Any:
        return slice(
            *(
                None if part is None else self.visit(part, names)
                for part in (node.lower, node.upper, node.step)
            )
        )

    def _subscript(self, node: ast.Subscript, names: Mapping[str, Any]) -> Any:
        return self.visit(node.value, names)[self.visit(node.slice, names)]

    def _attribute(self, node: ast.Attribute, names: Mapping[str, Any]) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "np":
            if node.attr in FUNCTIONS or node.attr in ("inf", "nan", "pi", "newaxis"):
                return getattr(np, node.attr)
            raise self.refuse(node, f"np.{node.attr} is not allowed here")
        value = self.visit(node.value, names)
        if isinstance(value, (np.ndarray, np.generic)) and (node.attr in METHODS or node.attr in ATTRIBUTES):
            return getattr(value, node.attr)
        raise self.refuse(node, f"'.{node.attr}' is not allowed here")

    def _call(self, node: ast.Call, names: Mapping[str, Any]) -> Any:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.refuse(node, "unpacked arguments are not allowed")
        function = self.visit(node.func, names)
        if not callable(function):
            raise self.refuse(node, "this is not a function")
        args = [self.visit(a, names) for a in node.args]
        keywords = {str(k.arg): self.visit(k.value, names) for k in node.keywords}
        for value in (*args, *keywords.values()):
            if isinstance(value, str) and function is not np.einsum:
                raise self.refuse(node, "text is only allowed in np.einsum")
        if getattr(function, "__name__", "") in _TAKE_SIZES:
            self._bounded(node, args)
        return self._sized(node, function(*args, **keywords))

    def _bounded(self, node: ast.AST, args: list[Any]) -> None:
        for value in args:
            numbers = (
                [v for v in value if isinstance(v, int)]
                if isinstance(value, (tuple, list))
                else [value]
                if isinstance(value, int)
                else []
            )
            total = 1
            for number in numbers:
                total *= max(1, abs(number))
            if total > LARGEST:
                raise self.refuse(node, f"{total} is larger than an expression may ask for ({LARGEST})")

    def _sized(self, node: ast.AST, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.size > LARGEST:
            raise self.refuse(node, f"an array of {value.size} elements is larger than allowed ({LARGEST})")
        return value

    def _lambda(self, node: ast.Lambda, names: Mapping[str, Any]) -> Any:
        params = [a.arg for a in node.args.args]

        def function(*values: Any) -> Any:
            return self.visit(node.body, {**names, **dict(zip(params, values, strict=True))})

        return function

    def _listcomp(self, node: ast.ListComp, names: Mapping[str, Any]) -> Any:
        return self._generate(node, list(node.generators), names)

    def _generate(
        self, node: ast.ListComp, generators: list[ast.comprehension], names: Mapping[str, Any]
    ) -> list[Any]:
        if not generators:
            return [self.visit(node.elt, names)]
        first, *rest = generators
        if not isinstance(first.target, ast.Name) or first.ifs:
            raise self.refuse(node, "a comprehension may only loop over plain names")
        source = self.visit(first.iter, names)
        if not isinstance(source, range) or len(source) > 4096:
            raise self.refuse(node, "a comprehension may only loop over a range of at most 4096")
        return [
            item for value in source for item in self._generate(node, rest, {**names, first.target.id: value})
        ]
