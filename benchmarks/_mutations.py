"""Small changes of meaning in a module's source, one at a time.

What can be changed: comparisons, numbers, truth values, signs, arithmetic and Boolean operators,
`not`, least and greatest (and their like), the ends of slices and ranges. What is left alone says
nothing that a test of numbers could refute: annotations, decorators, `raise` and `assert`, the
words of messages (formatted strings), `strict=` of `zip`, seeds.
"""

import ast
import copy
import dataclasses
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = (
    ("min", "max"),
    ("amin", "amax"),
    ("minimum", "maximum"),
    ("floor", "ceil"),
    ("any", "all"),
    ("argmin", "argmax"),
)
OPPOSITE = {a: b for pair in OPPOSITES for a, b in (pair, pair[::-1])}
UNSAID = (ast.Raise, ast.Assert, ast.JoinedStr, ast.AnnAssign, ast.Import, ast.ImportFrom)
SEEDS = {"manual_seed", "Random", "default_rng", "getenv"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of a file, which say `before`, say `after`."""

    path: str  # from the root of the repository
    line: int
    statement: int  # the line at which the statement begins that it stands in
    start: int
    end: int
    before: str
    after: str
    inside: bool  # a function: it can be changed without importing the package again

    @property
    def key(self) -> str:
        """What names it in a record, as long as the file stays what it is."""
        return f"{self.path}:{self.line}:{self.start}:{self.before}→{self.after}"

    def source(self, root: Path) -> bytes:
        """The whole module after the change."""
        text = (root / self.path).read_bytes()
        return text[: self.start] + self.after.encode() + text[self.end :]


def mutants(root: Path, path: str) -> list[Mutant]:
    """Every change that can be made in a module."""
    text = (root / path).read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, new, statement, inside in _changes(ast.parse(text)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = text[start:end].decode()
        found.append(Mutant(path, node.lineno, statement, start, end, before, new, inside))
    return found


def draw(root: Path, room: str, *, count: int, seed: int, without: tuple[str, ...]) -> list[Mutant]:
    """Mutants of a room: its files take turns, and from each a change is drawn at random."""
    rng = random.Random(f"{room} {seed}")
    files = sorted(
        str(p.relative_to(root))
        for p in (root / "sigmascope" / room).rglob("*.py")
        if not any(str(p.relative_to(root)).endswith(w) for w in without)
    )
    piles = []
    for path in files:
        by_place = defaultdict(list)  # places are drawn, not changes: a place may have several
        for m in mutants(root, path):
            by_place[m.start, m.end].append(m)
        places = [rng.choice(same) for _, same in sorted(by_place.items())]
        rng.shuffle(places)
        piles.append(places)
    rng.shuffle(piles)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(piles):
        drawn += [pile.pop() for pile in piles if pile][: count - len(drawn)]
    return drawn


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr, str, int, bool]]:
    """Each node that can be changed, what it becomes, the line of its statement, and its place."""

    def walk(node: ast.AST, line: int, inside: bool) -> Iterator[tuple[ast.expr, str, int, bool]]:
        if isinstance(node, UNSAID):
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                yield from walk(node.value, node.lineno, inside)
            return
        if isinstance(node, ast.stmt):
            line = node.lineno
        if isinstance(node, ast.expr):
            yield from ((node, new, line, inside) for new in _alternatives(node))
        for child, within in _parts(node, inside):
            yield from walk(child, line, within)

    yield from walk(tree, 1, False)


def _parts(node: ast.AST, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
    """What of a node can be changed."""
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        yield from ((d, inside) for d in defaults)
        body = node.body if isinstance(node.body, list) else [node.body]
        yield from ((b, inside or isinstance(node, ast.FunctionDef)) for b in body)
    elif isinstance(node, ast.ClassDef):
        yield from ((b, inside) for b in node.body)
    elif not _is_beside_the_point(node):
        yield from ((c, inside) for c in ast.iter_child_nodes(node))


def _is_beside_the_point(node: ast.AST) -> bool:
    """Seeds, types, and what only guards against programming errors."""
    if isinstance(node, ast.Call):
        return _name(node.func) in SEEDS | {"cast", "TypeVar"}
    if isinstance(node, ast.keyword):
        return node.arg in {"strict", "stacklevel"}
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def _alternatives(node: ast.expr) -> Iterator[str]:
    """What the node could say instead."""
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield _said(node, ops=[other()])
        case ast.BoolOp(op=op):
            yield _said(node, op=ast.And() if isinstance(op, ast.Or) else ast.Or())
        case ast.BinOp(op=op, left=left) if type(op) in OPERATORS:
            if not isinstance(left, (ast.JoinedStr, ast.Name)) or not _is_type(node):
                yield _said(node, op=OPERATORS[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield from (str(value + 1), str(value - 1)) if value > 0 else (str(value + 1),)
        case ast.Constant(value=float() as value) if value == value and value:
            yield from (repr(2 * value), repr(value / 2), repr(1.01 * value))
        case ast.Call(func=ast.Name(id=name), args=[*args]):
            if name in OPPOSITE:
                yield _said(node, func=ast.Name(OPPOSITE[name]))
            if name == "range" and not isinstance(args[-1], ast.Constant):
                yield _said(node, args=[*args[:-1], _shorter(args[-1])])
        case ast.Call(func=ast.Attribute(attr=attr) as func) if attr in OPPOSITE:
            other = ast.Attribute(func.value, OPPOSITE[attr])
            yield _said(node, func=other)
        case ast.Subscript(slice=ast.Slice(upper=ast.Name() | ast.BinOp() as upper) as part):
            yield _said(node, slice=ast.Slice(part.lower, _shorter(upper), part.step))


def _is_type(node: ast.BinOp) -> bool:
    """Whether `a | b` is a union of types, which is no arithmetic."""
    return isinstance(node.op, ast.BitOr) and any(
        _name(side)[:1].isupper() or _name(side) in {"int", "float", "str", "bool"}
        for side in (node.left, node.right)
    )


def _shorter(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _said(node: ast.expr, **changed: object) -> str:
    new = copy.copy(node)
    for name, value in changed.items():
        setattr(new, name, value)
    return f"({ast.unparse(ast.fix_missing_locations(new))})"
