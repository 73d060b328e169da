"""Both sides of every theorem with sixty digits, written again from the statements.

Nothing here is shared with the library: weights, inputs and representations go in as float64
numbers, which mpmath takes as they are, and every operation after that has sixty digits.
"""

import math

from mpmath import eigsy, exp, inf, log, matrix, mp, mpf, sqrt, svd_r

DIGITS = 60


def exact(t):
    """A tensor as a matrix of numbers with sixty digits."""
    t = t.detach().double()
    return matrix(t.reshape(t.shape[0], -1).tolist() if t.ndim else [[float(t)]])


def column(t):
    return matrix([[mpf(v)] for v in t.detach().double().tolist()])


def singular(A):
    """Singular values, descending."""
    if A.rows < A.cols:
        A = A.T
    return sorted((v for v in svd_r(A, compute_uv=False)), reverse=True)


def full(A):
    """`U, s, V` with `A = U diag(s) Vᵀ`, thin, descending."""
    flip = A.rows < A.cols
    U, s, Vt = svd_r(A.T if flip else A)
    order = sorted(range(len(s)), key=lambda i: -s[i])
    pick = lambda M: matrix([[M[i, j] for j in order] for i in range(M.rows)])
    U, V, s = pick(U), pick(Vt.T), [s[i] for i in order]
    return (V, s, U) if flip else (U, s, V)


def norm_sq(A):
    return sum((v * v for v in A), mpf(0))


def first(V, k):
    return matrix([[V[i, j] for j in range(k)] for i in range(V.rows)])


def polar(A):
    U, _, V = full(A)
    return U * V.T


def sum_of(matrices):
    found, *rest = matrices
    for M in rest:
        found = found + M
    return found


def top(M):
    """The largest eigenvalue of a symmetric matrix, and its vector."""
    lam, vectors = eigsy(M)
    at = max(range(len(lam)), key=lambda i: lam[i])
    return lam[at], matrix([[vectors[i, at]] for i in range(M.rows)])


def gated(d, A):
    return matrix([[d[i] * A[i, j] for j in range(A.cols)] for i in range(A.rows)])


class Point:
    """A stack at an input."""

    def __init__(self, stack, x):
        self.W = [exact(W) for W in stack.weights]
        self.b = [column(b) for b in stack.biases]
        self.slope, self.depth = mpf(stack.slope), len(self.W)
        self.biased = stack.biased
        a, F = column(x), mp.eye(len(x))
        self.z, self.a, self.F, self.chain, self.d = [], [a], [F], [], []
        for at, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
            z, chain = W * a + b, W * F
            last = at == self.depth - 1
            d = [mpf(1) if last or z[i] > 0 else self.slope for i in range(z.rows)]
            a, F = gated(d, z), gated(d, chain)
            self.z.append(z)
            self.chain.append(chain)
            self.d.append(d)
            if not last:
                self.a.append(a)
                self.F.append(F)
        B = mp.eye(self.W[-1].rows)
        self.B, self.read = [B], []
        for at in reversed(range(self.depth)):
            read = B * self.W[at]
            self.read.insert(0, read)
            if at:
                B = gated(self.d[at - 1], read.T).T
                self.B.insert(0, B)
        self.J = self.read[0]
        self.weights = sum((norm_sq(W) for W in self.W), mpf(0))
        self.norm = self.weights + sum((norm_sq(b) for b in self.b), mpf(0))

    def trace(self):
        one = 1 if self.biased else 0
        pairs = zip(self.B, self.a, strict=True)
        return sum((norm_sq(B) * (norm_sq(a) + one) for B, a in pairs), mpf(0))

    def kernel_norm(self):
        one = 1 if self.biased else 0
        K = mp.zeros(self.W[-1].rows)
        for B, a in zip(self.B, self.a, strict=True):
            K += (B * B.T) * (norm_sq(a) + one)
        return max(eigsy(K, eigvals_only=True))


def stack_sides(theorem, k, other=0):
    """Both sides of a theorem about stacks, for the k directions it counted; `other` elsewhere."""
    p = Point(theorem.point.stack, theorem.point.x)
    L = p.depth
    q = None
    if getattr(theorem, "other", None) is not None:
        q = Point(theorem.other.stack, theorem.other.x)
    name = theorem.name
    s = singular(p.J)
    if name == "jacobian-cost":
        return p.weights, L * sum((v ** (mpf(2) / L) for v in s[:k]), mpf(0))
    if name == "jacobian-rank":
        costs = [L * (i + 1) + 2 * sum(log(v) for v in s[: i + 1]) for i in range(k)]
        return p.weights, max(costs)
    room = p.weights - k * L - 2 * sum((log(v) for v in s[:k]), mpf(0))
    if name == "bottleneck-frames":
        V, total = first(full(p.J)[2], k), mpf(0)
        for W, d in zip(p.W, p.d, strict=True):
            U = polar(W * V)
            total += norm_sq(W - U * V.T)
            if W is not p.W[-1]:
                total += k - norm_sq(gated(d, U))
                V = polar(gated(d, U))
        return total, room
    if name == "bottleneck-one-frame":
        V, total = first(full(p.J)[2], k), mpf(0)
        for W, d in zip(p.W, p.d, strict=True):
            above = polar(gated(d, W * V))
            total += norm_sq(W - above * V.T)
            V = above
        return total, room
    if name == "representation-size":
        grown = exp(max(mpf(0), (p.norm - k * L) / k) - 2 * sum(log(v) for v in s[:k]) / k)
        return sum((norm_sq(a) for a in p.a), mpf(0)), p.trace() * grown / k
    if name == "ntk-on-segments":
        step = column(theorem.other.x) - column(theorem.point.x)
        size = sqrt(norm_sq(step))
        along = sqrt(norm_sq(p.J * step)) / size
        limit = mpf(L) / 4 * size**2 * along ** (2 - mpf(2) / L)
        return max(p.kernel_norm(), q.kernel_norm()), limit
    if name == "jacobian-variation":
        chains = [*p.chain, *p.read, *q.chain, *q.read]
        C = max(mpf(1), *(singular(A)[0] for A in chains))
        costs = [
            L * sum((v ** (mpf(2) / L) for v in values), mpf(0))
            for values in (s[:k], singular(q.J)[:other])
        ]
        return p.weights, sum(costs) / 2 + sum(singular(p.J - q.J)) / C**2
    if name == "product-correction":
        irregular = lambda values: sqrt(2 * sum((log(v) ** 2 for v in values), mpf(0)))
        return irregular(s[:k]), sum((irregular(singular(W)[:k]) for W in p.W), mpf(0))
    if name == "ntk-mixed-derivative":
        U, _, V = full(p.J)
        u, v, value = first(V, 1), first(U, 1), mpf(0)
        for _ in range(2):  # from below: some turns of the search
            u = top(sum_of(norm_sq(B.T * v) * (F.T * F) for F, B in zip(p.F, p.B, strict=True)))[1]
            value, v = top(
                sum_of(norm_sq(F * u) * (B * B.T) for F, B in zip(p.F, p.B, strict=True))
            )
        return value, L * s[0] ** (2 - mpf(2) / L)
    raise KeyError(name)


def alignment_sides(W1, W2):
    """`⟨v, u⟩²` and its lower bound, of two weights."""
    U, s, _ = full(exact(W1))
    _, _, V = full(exact(W2))
    A = exact(W1)
    v = first(V, 1)
    over = norm_sq(A.T * v)
    second = s[1] ** 2 if len(s) > 1 else mpf(0)
    bound = (over - second) / (s[0] ** 2 - second)
    return (first(U, 1).T * v)[0] ** 2, max(bound, mpf(0))


def representation_sides(name, H):
    """Of a batch of representations, rows are samples."""
    rows = len(H)
    A = exact(H)
    K = A * A.T if A.rows <= A.cols else A.T * A
    lam = sorted(eigsy(K, eigvals_only=True), reverse=True)
    lam = [max(v, mpf(0)) for v in lam]
    ratio = sum(lam) ** 2 / sum(v * v for v in lam)
    tiny = mpf(10) ** -40 * lam[0]
    mean_sq = sum(lam) / (A.rows * A.cols)
    soft = sum(1 for v in lam if v / rows >= mpf("0.5"))
    if name == "rank-participation":
        return mpf(sum(1 for v in lam if v > tiny)), ratio
    if name == "soft-rank":
        return mpf(soft), ratio / 4
    if name == "soft-rank-any-scale":
        return mpf(soft), (1 - mpf("0.5") / mean_sq) ** 2 * ratio
    if name == "regularity":
        M = A.T * A / rows
        square = M * M
        cube = sum((square[i, j] * M[i, j] for i in range(M.rows) for j in range(M.cols)), mpf(0))
        return sum((square[i, i] ** 2 for i in range(M.rows)), mpf(0)) / cube, mpf(1)
    raise KeyError(name)


def contains(estimate, value):
    """Whether a true number lies in its interval."""
    low = -inf if math.isinf(estimate.low) else mpf(estimate.low)
    high = inf if math.isinf(estimate.high) else mpf(estimate.high)
    return low <= value <= high


def said(verdict, sense, measured, limit):
    """Whether a verdict is compatible with the true sides."""
    small, large = (measured, limit) if sense == "at most" else (limit, measured)
    if verdict == "holds":
        return small <= large
    return verdict != "violated" or small > large


__all__ = ["DIGITS", "alignment_sides", "contains", "representation_sides", "said", "stack_sides"]
