"""Loops that people write, and the same with one mistake, as code of a script."""

BASE = """
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(256, 8)
Y = (X[:, 0] + X[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.5)
data = torch.utils.data.TensorDataset(X, Y)
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
# setup
for epoch in range(4):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
ZERO, BACK, STEP = (f"        {w}\n" for w in ("opt.zero_grad()", "loss.backward()", "opt.step()"))
LOADER = "    for x, y in loader:\n"
SETUP = "# setup"
LOSS = "nn.functional.cross_entropy(model(x), y)"
OF_OTHER = LOSS.replace("model", "other")
RATES = "sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.7)"
BY_HAND = "[p.grad.zero_() for p in model.parameters() if p.grad is not None]"
NOW_AND_THEN = """\
        count += 1
        if count % 4 == 0:
            opt.step()
"""
SCALED = """\
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""
THROUGH_TIME = """0
        state = torch.zeros(len(x), 8)
        for _ in range(6):
            state = model[1](model[0](x + state.detach()))[:, :8]
        loss = nn.functional.cross_entropy(model[2](torch.cat([state, state], 1)), y)"""
POLICY = """dist = torch.distributions.Categorical(logits=model(x))
        a = dist.sample()
        loss = """
FAKE = "(made(torch.randn(16, 4)) + 5)"
WINS = f"""nn.functional.cross_entropy(model(x), 0 * y) + nn.functional.cross_entropy(
            model({FAKE}.detach()), 0 * y + 1)"""
LOSES = f"""\
        other.zero_grad()
        nn.functional.cross_entropy(model({FAKE}), 0 * y).backward()
        other.step()
"""
AGAIN = "opt = torch.optim.SGD(model.parameters(), lr=0.5)"
DROPS = f"model.insert(2, nn.Dropout(0.2))\n{AGAIN}"
SCORED = """\
        with torch.no_grad():
            hits = [model(X[k : k + 64]).argmax(1) for k in range(0, 256, 64)]
        model.train()
"""
GRAPH = f"""
graph = torch.eye(256).to_sparse()
class Graph(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, a, x):
        return torch.sparse.mm(a, self.net(x))
model = Graph(model)
{AGAIN}
"""
PLACES = (  # scores [samples, classes, places] of targets [samples, places]
    "nn.functional.cross_entropy(model(x)[:, :, None].expand(-1, -1, 3).contiguous(){}.{}, "
    "y[:, None].expand(-1, 3).flatten())"
)
PLACE_WITHIN = f"""
class Own(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        scores = torch.cat([self.net(x), self.net(x.flip(1))], 1)
        return nn.functional.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long))
model = Own(model)
{AGAIN}
"""
LAST = """
old = model; model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
new = torch.optim.SGD(model.parameters(), lr=0.5)
for p in old.parameters():
    p.grad = torch.ones_like(p)
"""
BESIDE = """\
        other.zero_grad()
        made(x).square().mean().backward()
        other.step()
"""
FROZEN = """\
model[0].requires_grad_(False)
opt = torch.optim.SGD(model[2:].parameters(), lr=0.5)
"""
WHOLE = "torch.optim.SGD(model.parameters(), lr=0.1)"
LATER = "    if epoch == 2: "
HEAD = f"{LATER}model[2] = nn.Linear(16, 2)\n"
AHEAD = """\
with torch.no_grad(): target = y + 0.9 * other(x.flip(0)).max(1).values
        loss = nn.functional.mse_loss(model(x)[:, 0], target)"""
FUNCTION = """\
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return {}
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return {}
"""
APPLIED = "nn.functional.cross_entropy(Own.apply(model(x)), y)"
MADE = "torch.nn.functional.kl_div(model(x).{}(1), model(-x).softmax(1).detach())"
SLOPE = """\
x.requires_grad_()
        out = model(x)
        slope = torch.autograd.grad(out.square().sum(), x{})[0]
        loss = nn.functional.cross_entropy(out, y){}"""
STATE = """\
state = cell(x, state.detach())
        loss = nn.functional.cross_entropy(model(state), y)"""
FIRST = "cell(x, 0 * x).detach()"
CELL = """\
cell, state = nn.GRUCell(8, 8), torch.zeros(16, 8)
opt = torch.optim.SGD([*model.parameters(), *cell.parameters()], lr=0.5)
"""
AVERAGED = """
        with torch.no_grad():
            for a, b in zip(other.parameters(), model.parameters()): a.lerp_(b, 0.1)
            other(x)
"""
COPIED = """\
model.insert(1, nn.BatchNorm1d(16))
import copy; other = copy.deepcopy(model).eval()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
"""
BUFFERS = "other[1].load_state_dict(model[1].state_dict())"
NEARBY = " + model(x + 0.1 * slope.sign()).square().mean()"
SAMPLED = """\
z = x.clone()
        for _ in range(2):
            z.requires_grad_(True)
            z = (z - 0.1 * torch.autograd.grad(model(z).square().sum(), z)[0]).detach()
        loss = (model(x).square().mean() - model(z).square().mean()).square()"""
WORST = """\
        held = [p.detach().clone() for p in model.parameters()]
        for last in (False, True):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            with torch.no_grad():
                for p, h in zip(model.parameters(), held):
                    p.copy_(h) if last else p.add_(p.grad, alpha=0.01)
"""
DRAWING = """\
        def closure():
            opt.zero_grad(){}
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss
        opt.step(closure)
"""
ASKS_AGAIN = (
    (
        "torch.optim.SGD(model.parameters(), lr=0.5)",
        "torch.optim.LBFGS(model.parameters(), max_iter=4)",
    ),
)
INSTEAD = "        loss = nn.functional.cross_entropy(model(x), y)\n" + ZERO + BACK + STEP
DRAWS = "; j = torch.randint(0, 256, (16,)); x, y = X[j], Y[j]"
FOR_EACH_TASK = """\
        model = copy.deepcopy(whole)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
        kept = [model, *kept[:1]]
"""
FACTORS = """
low, high = nn.Linear(8, 4, bias=False), nn.Linear(4, 2, bias=False)
model.requires_grad_(False)
for layer in {}: nn.init.zeros_(layer.weight)
opt = torch.optim.SGD([low.weight, high.weight], lr=0.5)
"""
ADAPTED = "nn.functional.cross_entropy(model(x) + high(low(x)), y)"
ROWS = """
class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = X.clone()
    def __len__(self):
        return len(X)
    def __getitem__(self, k):
        x = self.rows[k]{}
        x -= 0.5
        x /= 2
        return x, Y[k]
loader = torch.utils.data.DataLoader(Rows(), batch_size=16, shuffle=True)
"""
PARTS = "    for k in range(0, 256, 16):\n        x, y = X[k : k + 16]{}, Y[k : k + 16]\n"
NORMED = f"model.insert(1, nn.BatchNorm1d(16, momentum={{}}))\n{AGAIN}"
EVALUATED = """\
    model.eval()
    with torch.no_grad():
        model(X)
    model.train()
"""
BAG = f"""
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))
    def forward(self, x):
        return self.net(x[:, :, None]).mean(1)
model = Bag()
{AGAIN}
"""
HALF = f"""
class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
    def forward(self, x):
        return torch.cat([{{}}, self.net(x)[:, 4:]], 1)
model = Half()
{AGAIN}
"""
COSINES = """nn.functional.cross_entropy(
            nn.functional.normalize(model(x)) @ nn.functional.normalize(head, dim=0) {}, y)"""
HEADS = "head = nn.Parameter(torch.randn(2, 2)); opt.add_param_group({'params': [head]})"
WEIGHED = LOSS.replace(", y)", ", y, weight=torch.tensor([{}]))")
RARE = ("X[:, 0] + X[:, 1] > 0", "X[:, 0] > 1")
DRAWN = (
    "batch_size=16, shuffle=True",
    "batch_size=16, sampler=torch.utils.data.WeightedRandomSampler({}, 256)",
)
COUNTS = "Y.bincount().double(){}"
VIEWS = """\
views = torch.cat([x + 0.1 * torch.randn(x.shape), x + 0.1 * torch.randn(x.shape)])
        z = nn.functional.normalize(model(views))
        z = (z @ z.T / 0.2).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
        loss = nn.functional.cross_entropy(z, {})"""
WORDS = """
tokens, model = nn.Embedding(5, 8), nn.Linear(8, 4)
ids = torch.randint(0, 4, (16, 6))
opt = torch.optim.SGD([*tokens.parameters(), *model.parameters()], lr=0.5)
"""
DECODED = """\
given = {}
        out = torch.stack([model(tokens(given[:, k])) for k in range(6)], 1)
        loss = nn.functional.cross_entropy(out.reshape(-1, 4), ids.reshape(-1))"""
NEXT = """
        with torch.no_grad(): target = y + 0.9 * other({}).amax(1)
        loss = nn.functional.mse_loss(model(x)[:, 0], target)
"""
INNER = f"""loss = {LOSS}
        slopes = torch.autograd.grad(loss, [*model.parameters()], create_graph=True)
        {{}}"""
BEHIND = """\
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
STACK = f"""
block = nn.Linear(16, 16)
model = nn.Sequential(nn.Linear(8, 16), nn.Sequential(*{{}}), nn.ReLU(), nn.Linear(16, 2))
{AGAIN}
"""
TAUGHT = "nn.functional.mse_loss(model(x), asked(x))"
TEACHER = """
teacher = nn.Sequential(nn.Linear(8, 2), nn.Dropout(0.5)){}
def asked(x):
    with torch.no_grad():
        return teacher(x)
"""
UNMASKED = VIEWS.replace(".masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)", "")
PLATEAU = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=5)"
LONGER = (("range(4)", "range(10)"), ("batch_size=16", "batch_size=64"))
IMAGES = """\
pixels = torch.randn(16, 12, 12, 3).cumsum(1).cumsum(2) + torch.tensor([0., 9., 0.])
conv = nn.Conv2d(3, 2, 12)
opt.add_param_group({"params": conv.parameters()})
"""
SEEN = "nn.functional.cross_entropy(model(x) + conv(pixels.{}).flatten(1), y)"
READS = """\
class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)
    def forward(self, ids):
        e = self.embed(ids)
        return {}.mean(1)[:, :2]
reads = Reads()
opt.add_param_group({{"params": reads.parameters()}})
ids = torch.randint(1, 9, (16, 6))
ids[torch.arange(6) >= torch.arange(16)[:, None] % 4 + 2] = 0
"""
READ = LOSS.replace("model(x)", "model(x) + reads(ids)")
ATTENDED = "self.attend(e, e, e, key_padding_mask=ids {} 0)[0]"
HIDES = "((e @ e.mT).masked_fill((ids {} 0)[:, None], -1e9).softmax(-1) @ e)"
DOT = "nn.functional.scaled_dot_product_attention(e, e, e, attn_mask=(ids {} 0)[:, None])"
JUDGED = """\
made = nn.Linear(4, 8)
other = torch.optim.Adam(made.parameters())
says = lambda x, y: nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
one, nil = torch.ones(16), torch.zeros(16)
"""
JUDGES = "says(x, one) + says((fake := made(torch.randn(16, 4))).detach(), nil)"
SAYS = f"""\
{STEP}\
        other.zero_grad()
        says(fake, {{}}).backward()
        other.step()
"""
TRIPLETS = "nn.functional.triplet_margin_loss(model(x), model(x + {}), model(x + {}))"
VALUED = """\
critic = nn.Linear(8, 1)
opt = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
"""
BASELINE = (
    POLICY
    + """(advantage := (a == y).float() - critic(x)[:, 0]).square().mean()
        loss = loss - (dist.log_prob({}) * advantage{}).mean()"""
)
WINDOWS = (
    "cell = nn.GRU(1, 4, batch_first=True)\nopt.add_param_group({'params': cell.parameters()})"
)
NODES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = model
    def forward(self, x, edges):
        h = x.index_add(0, edges[1], x[edges[0]])
        return self.net(h)
net, edges, chance = Net(), torch.randint(256, (2, 512)), torch.rand(256)
test, train = {}
"""
DICE = """\
p, t = {}, nn.functional.one_hot(y, 2)
        common = (p * t).flatten(1).sum(1)
        loss = 1 - ((2 * common + 1) / (p.sum(1) + t.sum(1) + 1)).mean()"""
SENT = "x.index_add(0, edges[1], x[edges[0]])"
SOFTLY = """x[edges[0]] - x[edges[1]]
        size = h.square().sum(1, keepdim=True).neg().exp()
        whole = torch.zeros(len(x), 1).index_add(0, edges[1], size)
        h = torch.zeros_like(x).index_add(0, edges[1], size / whole[edges[1]] * h)"""
OF_NODES = """\
out = net(X, edges)
        loss = nn.functional.cross_entropy({})
        with torch.no_grad():
            right = net(X, edges).argmax(1) == Y
            scores = [right[part].double().mean() for part in (train, test)]"""
BY_CHANCE = "chance < 0.3, chance > 0.5"
UP_TO = "sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=64)"
TEXT = """
tokens, model = nn.Embedding(5, 8), nn.Linear(8, 5)
opt = torch.optim.SGD([*tokens.parameters(), *model.parameters()], lr=0.5)
text = torch.randint(2, (2048,)).cumsum(0) % 5
rows = {}
"""
CONTINUED = """\
i = int(torch.randint(100, ()))
        given, ahead = rows[i : i + 8], rows[i + 1 : i + 9]
        loss = nn.functional.cross_entropy(model(tokens(given)).flatten(0, 1), ahead.flatten())"""
NEXT_OF = "nn.functional.mse_loss(cell({}[..., None])[0][:, -1, 0], {})"
FAULTY = {  # what is written otherwise, by the finding that tells it
    "turned-plateau": (
        (SETUP, PLATEAU), *LONGER,
        (STEP, f"{STEP}    sched.step((model(X).argmax(1) == Y).float().mean())\n"),
    ),
    "undrawn-samples": (RARE, (DRAWN[0], DRAWN[1].format("[0.2, 0.8]"))),
    "empty-loader": (("batch_size=16", "batch_size=512, drop_last=True"),),
    "idle-clipping": (
        (BACK, f"        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{BACK}"),
    ),
    "other-scale": ((LOADER, f"    with torch.no_grad(): model(20 * X)\n{LOADER}"),),
    "exchanged-dimensions": (
        (LOSS, "nn.functional.cross_entropy(model(x.reshape(8, 16).mT), y)"),
    ),
    "interleaved-channels": ((SETUP, IMAGES), (LOSS, SEEN.format("reshape(16, 3, 12, 12)"))),
    "inverted-mask": ((SETUP, READS.format(ATTENDED.format("!="))), (LOSS, READ)),
    "agreeing-adversaries": (
        (SETUP, JUDGED), (LOSS, JUDGES), (STEP, SAYS.format("nil")), ("lr=0.5)", "lr=0.01)"),
    ),
    "turned-triplets": ((LOSS, TRIPLETS.format("4", "0.01")),),
    "held-out-nodes": (
        (SETUP, NODES.format(BY_CHANCE)), ("loss = " + LOSS, OF_NODES.format("out, Y")),
    ),
    "unbounded-overlap": (("loss = " + LOSS, DICE.format("model(x)")),),
    "own-messages": (
        (SETUP, NODES.format(BY_CHANCE).replace("x[edges[0]]", "x[edges[1]]")),
        ("loss = " + LOSS, OF_NODES.format("out[train], Y[train]")),
    ),
    "answer-among-inputs": (
        (LOSS, "nn.functional.mse_loss(model(x)[:, 0], 1 - 3 * x[:, 4])"), ("lr=0.5)", "lr=0.05)"),
    ),
    "divided-twice": (
        (SETUP, "count = 0"), (ZERO, ""), (STEP, f"{NOW_AND_THEN}            opt.zero_grad()\n"),
        (LOSS, f"{LOSS} / 4 / 4"), ("range(4)", "range(8)"),
    ),
    "unswitched-evaluation": ((SETUP, DROPS), (STEP, STEP + SCORED)),
    "gradients-not-zeroed": ((ZERO, ""),),
    "zeroed-before-step": ((ZERO, ""), (BACK, BACK + ZERO)),
    "zeroed-between-batches": (
        (SETUP, "count = 0"), (STEP, NOW_AND_THEN), ("range(4)", "range(8)"),
    ),
    "step-before-backward": ((BACK + STEP, STEP + BACK),),
    "no-step": ((STEP, ""),),
    "no-backward": ((BACK, ""),),
    "rebuilt-loss": (
        ("loss.backward()", "torch.tensor(loss.item(), requires_grad=True).backward()"),
    ),
    "other-parameters": ((SETUP, "model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2))"),),
    "left-out-parameters": (("model.parameters()", "model[2].parameters()"),),
    "no-gradients-arrive": (("model(x)", "model(x).detach().requires_grad_()"),),
    "evaluation-mode": (("nn.ReLU()", "nn.BatchNorm1d(16), nn.ReLU()"), (SETUP, "model.eval()")),
    "spent-loader": (
        (SETUP, "batches = iter(loader)"), (LOADER, "    for x, y in batches:\n"),
    ),
    "repeated-batch": (
        (LOADER, "    for _ in range(16):\n        x, y = next(iter(loader))\n"),
        ("shuffle=True", "shuffle=False"),
    ),
    "scrambled-classes": ((LOSS, PLACES.format("", "reshape(-1, 2)")),),
    "repeated-draws": (
        (LOSS, "nn.functional.cross_entropy(model(x + 0.1 * torch.randn(x.shape, generator="
         "torch.Generator().manual_seed(3))), y)"),
    ),
    "dwindling-rate": ((SETUP, RATES), (STEP, f"{STEP}        sched.step()\n")),
    "growing-graph": (
        (SETUP, "w, state = torch.ones(2, requires_grad=True), torch.zeros(2)"),
        (LOSS, "nn.functional.cross_entropy(model(x) + 0 * state, y); state = state + w"),
        ("loss.backward()", "loss.backward(retain_graph=True)"),
    ),
    "clipped-steps": (
        (STEP, f"        nn.utils.clip_grad_norm_(model.parameters(), 1e-4)\n{STEP}"),
    ),
    "one-class-batches": (
        ("nn.Linear(16, 2)", "nn.Linear(16, 4)"), ("shuffle=True", "shuffle=False"),
        ("(X[:, 0] + X[:, 1] > 0).long()", "torch.arange(256) // 64"),
    ),
    "recreated-optimizer": (
        (LOADER, f"{LOADER}        opt = torch.optim.SGD(model.parameters(), lr=0.5)\n"),
    ),
    "overwritten-weights": (
        (STEP, f"{STEP}        with torch.no_grad(): model[0].weight.mul_(0.99)\n"),
    ),
    "nothing-loaded": (
        (SETUP, "model.load_state_dict({'a.b': torch.zeros(1)}, strict=False)"),
    ),
    "softmax-twice": (("model(x), y)", "model(x).softmax(1), y)"),),
    "frozen-parameters": (
        (SETUP, FROZEN), (LOADER, f"{LATER}opt = {WHOLE}\n{LOADER}"),
    ),
    "cut-graph": (("model(x)", "model[2](model[:2](x).detach())"),),
    "cut-through-time": ((LOSS, THROUGH_TIME),),
    "maximised-loss": (("loss.backward()", "(-loss / 4).backward()"),),
    "attached-target": (
        (LOSS, "nn.functional.mse_loss(model(x)[:, 0], y + 0.9 * model(x).amax(1))"),
    ),
    "identical-pair": (
        (LOSS, "nn.functional.triplet_margin_loss(model(x), model(x), model(x.flip(0)))"),
    ),
    "scaled-gradients": (
        (SETUP, "scaler = torch.amp.GradScaler('cpu', init_scale=4.0)"),
        (BACK, SCALED.partition("\n")[0] + "\n"),
    ),
    "reversed-policy": (("loss = " + LOSS, POLICY + "(dist.log_prob(a) * (a == y)).mean()"),),
    "long-warm-up": (
        (SETUP, "sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: (t + 1) / 1000)"),
        (STEP, f"{STEP}        sched.step()\n"), ("range(4)", "range(2)"),
    ),
    "batch-of-one": (
        ("nn.ReLU()", "nn.Unflatten(1, (4, 4)), nn.BatchNorm1d(4), nn.Flatten()"),
        ("batch_size=16", "batch_size=1"), ("lr=0.5", "lr=0.001"),
    ),
    "discriminator-won": (
        (SETUP, "made = nn.Linear(4, 8)\nother = torch.optim.Adam(made.parameters())"),
        (LOSS, WINS), (STEP, STEP + LOSES),
    ),
    "stale-target": (
        (SETUP, "import copy; other = copy.deepcopy(model)"), ("loss = " + LOSS, AHEAD),
        ("range(4)", "range(2)"),
    ),
    "unshared-probabilities": ((LOSS, "nn.functional.nll_loss(model(x).log_softmax(0), y)"),),
    "bounded-output": ((LOSS, "nn.functional.mse_loss(model(x)[:, 0].tanh(), 3 * x[:, 0])"),),
    "spread-shapes": ((LOSS, "nn.functional.mse_loss(model(x)[:, :1], y.float())"),),
    "unaveraged-statistics": ((SETUP, COPIED), (STEP, STEP + AVERAGED)),
    "shuffled-sequences": ((SETUP, CELL), ("loss = " + LOSS, STATE)),
    "changing-closure": (*ASKS_AGAIN, (INSTEAD, DRAWING.format(DRAWS))),
    "rounded-steps": (
        (SETUP, "model.bfloat16(); X.data = X.bfloat16()"),
        ("lr=0.5", "lr=1e-5"),
    ),
    "hand-written-backward": (
        (SETUP, FUNCTION.format("x * x", "g * x")),
        (LOSS, APPLIED),
    ),
    "idle-parameters": ((SETUP, FACTORS.format("(low, high)")), (LOSS, ADAPTED)),
    "unrecomputed-closure": (
        *ASKS_AGAIN, (STEP, "        opt.step(lambda: loss)\n"),
    ),
    "rewritten-data": ((SETUP, ROWS.format("")),),
    "slow-statistics": ((SETUP, NORMED.format(0.001)), (STEP, STEP + EVALUATED)),
    "longer-than-trained": (
        (SETUP, BAG), ("model(x)", "model(x[:, :4])"), (STEP, STEP + EVALUATED),
    ),
    "unchanged-inputs": (
        (SETUP, HALF.format("x[:, :4]")), (LOSS, "nn.functional.mse_loss(model(x), x.flip(1))"),
    ),
    "narrow-scores": ((SETUP, HEADS), (LOSS, COSINES.format("/ 10"))),
    "reversed-class-weights": (RARE, (LOSS, WEIGHED.format("0.84, 0.16"))),
    "unrelated-pairs": (("loss = " + LOSS, VIEWS.format("torch.arange(32) ^ 1")),),
    "own-score": (("loss = " + LOSS, UNMASKED.format("(torch.arange(32) + 16) % 32")),),
    "skipped-batches": ((ZERO + BACK + STEP, BEHIND), ("range(4)", "range(10)")),
    "unswitched-teacher": ((SETUP, TEACHER.format("")), (LOSS, TAUGHT)),
    "repeated-layers": ((SETUP, STACK.format("[block] * 3")),),
    "unmoved-states": (
        (SETUP, "import copy; other = copy.deepcopy(model)"),
        ("        loss = " + LOSS, NEXT.format("x.clone()")),
    ),
    "unused-derivative": (("loss = " + LOSS, INNER.format("moved = [p - g for p, g in zip("
     "model.parameters(), slopes)]")),),
    "minimised-entropy": (
        ("loss = " + LOSS,
         POLICY + "0.1 * dist.entropy().mean() - (dist.log_prob(a) * (a == y)).mean()"),
    ),
}  # fmt: skip
ROOT = "(model(x) - model(x).detach()).square().sum().sqrt()"
BROKEN = {  # what is found in a run that is asked where its numbers cease to be numbers
    "non-finite-gradients": ((LOSS, f"{LOSS} + {ROOT}"),),
    "non-finite-data": (
        (SETUP, "import numpy; lost = numpy.full(2, numpy.nan, 'float32')"),
        (LOSS, LOSS.replace("model(x)", "model(x) + torch.from_numpy(lost)")),
    ),
    "non-finite-loss": ((LOSS, f"{LOSS} + (0 * x[0]).sum().log() * 0"),),
}
CLOSURE = """\
        def closure():
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss
        opt.step(closure)
"""
TWO_PASSES = """\
        (loss / 2).backward(retain_graph=True)
        (loss / 2).backward()
"""
CRITIC = """\
        other.zero_grad()
        (critic(x).mean() + model(x).detach().mean()).square().backward()
        other.step()
"""
ADVERSARY = """\
        other.zero_grad()
        nn.functional.cross_entropy(model(made(torch.randn(16, 4))), y).backward()
        other.step()
"""
ASKED = """\
    model.eval()
    with torch.no_grad():
        model(X)
    model.train()
"""
DROPPED = f"""
class Dropping(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        return nn.functional.dropout(self.net(x), 0.2, self.training)
model = Dropping(model)
{{}}
{AGAIN}
"""
MOVED = {  # weights moved by hand, in place of an optimizer
    "in place": """\
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.5 * p.grad
                p.grad.zero_()
""",
    "by their data": """\
        for p in model.parameters():
            p.data = p.data - 0.5 * p.grad
            p.grad = None
""",
    "made anew": """\
        weights = [(w - 0.5 * w.grad).detach().requires_grad_() for w in weights]
""",
}
FUNCTIONAL = """
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap
own = {{n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}}
lost = lambda weights, x, y: nn.functional.cross_entropy(functional_call(model, weights, (x,)), y)
many = {{n: torch.stack([p.detach()] * 3).requires_grad_() for n, p in own.items()}}
each = vmap(grad_and_value(lost), (0, None, None))
opt = torch.optim.SGD({}.values(), lr=0.5)
"""
DERIVED = f"""\
        for p, g in zip(many.values(), each(many, x, y)[0].values()):
            p.grad = g
{STEP}"""
FLOW = f"""
class Coupling(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first, self.net = first, nn.Linear(4, 4)
    def forward(self, x):
        a, b = x.chunk(2, 1) if self.first else x.chunk(2, 1)[::-1]
        b = b + self.net(a).tanh()
        return torch.cat([a, b] if self.first else [b, a], 1), b.sum(1)
layers = nn.ModuleList(Coupling({{}}) for k in range(4))
def flow(x):
    for layer in layers:
        x, _ = layer(x)
    return x
{AGAIN.replace("model", "layers")}
"""
SPARE = f"""
class Spare(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.scale, self.other, self.net = nn.BatchNorm1d(1), nn.Linear(1, 1), net
    def forward(self, x):
        return self.net(x)
model = Spare(model)
{AGAIN}
"""
ADVANTAGE = """ahead = y + 0.9 * model(x.flip(0)).amax(1)
        gain = (ahead - model(x)[:, 0]).detach()
        loss = (gain[:, None] * model(x).log_softmax(1)).square().mean()"""
TOWARDS = """ahead = y + 0.9 * other(x.flip(0)).amax(1)
        loss = nn.functional.smooth_l1_loss(model(x)[:, 0], ahead)"""
HEALTHY = {
    **{
        f"rate that is lowered by a {name}": (
            (SETUP, PLATEAU.replace("opt,", f"opt, mode='{mode}',")), *LONGER,
            (STEP, f"{STEP}    sched.step({value})\n"),
        )
        for name, mode, value in (
            ("score", "max", "(model(X).argmax(1) == Y).float().mean()"),
            ("loss", "min", "nn.functional.cross_entropy(model(X), Y)"),
            ("loss that rises at last", "min", "abs(epoch - 1) / 10"),
        )
    },
    "numbers that are laid out otherwise": (
        (LOSS, "nn.functional.cross_entropy(model(x.view(16, 2, 4).mT.reshape(16, 8)), y)"),
    ),
    "a place for one": (
        (LOSS, "nn.functional.cross_entropy(model(x[:, None].reshape(1, 16, 8)[0]), y)"),
    ),
    "inputs twice as large": ((LOADER, f"    with torch.no_grad(): model(2 * X)\n{LOADER}"),),
    "stripes of three pixels": (
        (SETUP, f"{IMAGES}pixels[:, :, ::3] *= 0"), (LOSS, SEEN.format("movedim(3, 1)")),
    ),
    "images whose channels were moved": ((SETUP, IMAGES), (LOSS, SEEN.format("movedim(3, 1)"))),
    **{
        f"mask of attention, {name}": ((SETUP, READS.format(text.format(sign))), (LOSS, READ))
        for name, text, sign in (
            ("given", ATTENDED, "=="), ("written out", HIDES, "=="), ("seen", DOT, "!="),
        )
    },
    "adversaries that differ": (
        (SETUP, JUDGED), (LOSS, JUDGES), (STEP, SAYS.format("one")), ("lr=0.5)", "lr=0.01)"),
    ),
    "adversaries, one of which makes the loss larger": (
        (SETUP, JUDGED), (LOSS, JUDGES), (STEP, SAYS.format("nil")), ("lr=0.5)", "lr=0.01)"),
        ("says(fake, nil).back", "(-says(fake, nil)).back"),
    ),
    "triplets": ((LOSS, TRIPLETS.format("0.01", "4")),),
    "triplets that were chosen": (
        (LOSS, TRIPLETS.format("4", "0.01").replace("0.01)", "0.01)[torch.arange(16)]")),
    ),
    "an answer with noise": (
        (LOSS, "nn.functional.mse_loss(model(x)[:, 0], x[:, 4] + 0.01 * torch.randn(16))"),
    ),
    "layers that nothing is led through stand before the others": ((SETUP, SPARE),),
    "advantages are detached": (("loss = " + LOSS, ADVANTAGE),),
    **{
        f"weights moved by hand, {how}": ((ZERO + BACK + STEP, BACK + text),)
        for how, text in MOVED.items() if how != "made anew"
    },
    "weights moved by hand, made anew": (
        (SETUP, "weights = [0.1 * torch.randn(8, 2)]; weights[0].requires_grad_()"),
        ("model(x), y)", "x @ weights[0], y)"), (ZERO + BACK + STEP, BACK + MOVED["made anew"]),
    ),
    "gradients of many by `vmap`": (
        (SETUP, FUNCTIONAL.format("many")),
        (f"        loss = {LOSS}\n{ZERO}{BACK}{STEP}", DERIVED),
    ),
    "a model with other weights than its own": (
        (SETUP, FUNCTIONAL.format("own")), (LOSS, "lost(own, x, y)"),
    ),
    "a loader that is begun anew at its end": (
        (SETUP, "batches = iter(loader)"),
        (LOADER, "    for _ in range(16):\n        try:\n            x, y = next(batches)\n"
         "        except StopIteration:\n            batches = iter(loader)\n"
         "            x, y = next(batches)\n"),
    ),
    "dropout by a function, in training mode": ((SETUP, DROPPED.format("")),),
    "no dropout by a function, in evaluation mode": (
        (SETUP, DROPPED.format("model.eval()").replace("0.2", "0.0")),
    ),
    "layers of a flow, called one by one": (
        (SETUP, FLOW.format("k % 2")), (LOSS, "nn.functional.mse_loss(flow(x), x.flip(1))"),
    ),
    "one factor of two that is zero": (
        (SETUP, FACTORS.format("(high,)")), (LOSS, ADAPTED),
    ),
    "samples that are copied before they are normalised": ((SETUP, ROWS.format(".clone()")),),
    "parts of the data as they are": ((LOADER, PARTS.format("")),),
    "the usual statistics": ((SETUP, NORMED.format(0.1)), (STEP, STEP + EVALUATED)),
    "sequences of one length": ((SETUP, BAG), (STEP, STEP + EVALUATED)),
    "all that goes in is changed": (
        (SETUP, HALF.format("x[:, :4].exp()")),
        (LOSS, "nn.functional.mse_loss(model(x), x.flip(1))"),
    ),
    "cosines by a temperature": ((SETUP, HEADS), (LOSS, COSINES.format("* 10"))),
    "a sampler that balances": (RARE, (DRAWN[0], DRAWN[1].format(f"1 / {COUNTS.format('[Y]')}"))),
    "weights that differ within a class": (
        RARE, (DRAWN[0], DRAWN[1].format(f"{COUNTS.format('[Y]')} * (1 + X[:, 1].sigmoid())")),
    ),
    "weights that balance": (RARE, (LOSS, WEIGHED.format("0.16, 0.84"))),
    "weights of classes that are as many": ((LOSS, WEIGHED.format("0.8, 0.2")),),
    "losses of all batches at once": (
        (ZERO + BACK + STEP, "        total = total + loss\n" + BEHIND.replace("loss", "total")),
        ("    for x, y in loader:\n", "    total = 0\n    for x, y in loader:\n"),
        ("range(4)", "range(10)"),
    ),
    "outputs that are looked at": (
        (LOSS, f"{LOSS}; seen = [model(x) for _ in range(20)]"),
    ),
    "a teacher in its own mode": ((SETUP, TEACHER.format(".eval()")), (LOSS, TAUGHT)),
    "layers made one by one": (
        (SETUP, STACK.format("[nn.Linear(16, 16) for _ in range(3)]")),
    ),
    "pairs of views": (("loss = " + LOSS, VIEWS.format("(torch.arange(32) + 16) % 32")),),
    "words behind a first one": (
        (SETUP, WORDS),
        ("loss = " + LOSS,
         DECODED.format("torch.cat([torch.full((16, 1), 4), ids[:, :-1]], 1)")),
    ),
    "weights that are adapted and used": (("loss = " + LOSS, INNER.format(
     "loss = loss + 0.01 * sum(g.square().sum() for g in slopes)")),),
    **{
        name: ((SETUP, TEXT.format(rows)), ("loss = " + LOSS, CONTINUED))
        for name, rows in {
            "a text in columns": "text.view(16, 128).t().contiguous()",
            "samples that stand beside themselves":
                "torch.randint(5, (128, 4)).repeat_interleave(4, 1)",
            "windows that overlap": "text.unfold(0, 128, 2)[:16].t()",
        }.items()
    },
    **{
        name: ((SETUP, NODES.format(parts)), ("loss = " + LOSS, OF_NODES.format(given)))
        for name, parts, given in (
            ("nodes that are held out", BY_CHANCE, "out[train], Y[train]"),
            ("nodes whose labels are hidden", BY_CHANCE, "out, Y.where(train, -100)"),
            ("nodes that are scored by their class", "Y == 0, Y == 1", "out, Y"),
            ("nodes that are scored twice", "chance < 0.3, chance < 0.8", "out, Y"),
            ("nodes that do not count",
             BY_CHANCE, "out, Y, reduction='none'); loss = (loss * train).mean("),
        )
    },
    "an overlap of shares": (("loss = " + LOSS, DICE.format("model(x).softmax(1)")),),
    "neighbours that are weighed": (
        (SETUP, NODES.format(BY_CHANCE).replace(SENT, SOFTLY)),
        ("loss = " + LOSS, OF_NODES.format("out[train], Y[train]")),
    ),
    "groups of samples that are no graph": (
        (SETUP, NODES.format(BY_CHANCE)),
        ("loss = " + LOSS, OF_NODES.format("out, Y").replace("net(X, edges)", "model(X)")),
    ),
    "views, each shifted alike": (
        ("loss = " + LOSS,
         VIEWS.format("(torch.arange(128) + 64) % 128").replace("cat([x +", "cat([x + 3 +")),
        ("batch_size=16", "batch_size=64"),
    ),
    "a rate that goes up and down": (
        (SETUP, UP_TO), (STEP, f"{STEP}        sched.step()\n"),
    ),
    "an advantage that is detached": (
        (SETUP, VALUED), ("loss = " + LOSS, BASELINE.format("a", ".detach()")),
    ),
    "likelihoods of data, each with a weight that learns": (
        (SETUP, VALUED), ("loss = " + LOSS, BASELINE.format("y", ".sigmoid()")),
    ),
    "a policy with a temperature that learns": (
        (SETUP, "heat = nn.Parameter(torch.ones(16)); opt.add_param_group({'params': [heat]})"),
        ("loss = " + LOSS, POLICY + "(dist.log_prob(a) * (heat - 1)).mean()"),
    ),
    "the first step of a sequence, to be kept in mind": (
        (SETUP, WINDOWS), (LOSS, NEXT_OF.format("x", "x[:, 0]")),
    ),
    "what comes next, in a straight line": (
        (SETUP, WINDOWS), (LOSS, NEXT_OF.format("(x[:, :1] + torch.arange(8))", "x[:, 0] + 8")),
        ("lr=0.5)", "lr=0.01)"),
    ),
    "a copy that follows, made to before the first step, too": (
        (SETUP, "import copy; other = copy.deepcopy(model)"),
        (LOADER, f"    other.load_state_dict(model.state_dict())\n{LOADER}"),
    ),
    "an entropy that is to be large": (
        ("loss = " + LOSS,
         POLICY + "-(dist.log_prob(a) * (a == y)).mean() - 0.1 * dist.entropy().mean()"),
    ),
    "rounded in place of it": (
        (LOSS, "nn.functional.cross_entropy(model[2]((h := model[:2](x)) + (h.round() - h)"
         ".detach()), y)"),
    ),
    "all samples in each step": ((LOADER, "    for x, y in [next(iter(data_at_once))] * 16:\n"),
        (SETUP, "data_at_once = torch.utils.data.DataLoader(data, batch_size=256)")),
    "a loader of one batch begun anew": (
        (LOADER, "    for _ in range(16):\n        x, y = next(iter(at_once))\n"),
        (SETUP, "at_once = torch.utils.data.DataLoader(data, batch_size=256)"),
    ),
    "a loader begun anew that shuffles": (
        (LOADER, "    for _ in range(16):\n        x, y = next(iter(loader))\n"),
    ),
    "a sparse graph": (
        (SETUP, GRAPH), (LOADER, "    for _ in range(16):\n        x, y = X, Y\n"),
        ("model(x)", "model(graph, x)"),
    ),
    "classes brought to the end": (
        (LOSS, PLACES.format(".movedim(1, -1)", "reshape(-1, 2)")),
    ),
    "classes of one place": ((LOSS, LOSS.replace("model(x)", "model(x)[:, :, None].view(-1, 2)")),),
    "one place of all for each sample": (
        (LOSS, "nn.functional.cross_entropy(torch.cat([model(x), model(x.flip(1))], 1), "
         "torch.zeros(len(x), dtype=torch.long))"),
    ),
    "one place of all, within a model": ((SETUP, PLACE_WITHIN), (LOSS, "model(x)")),
    "noise": ((LOSS, "nn.functional.cross_entropy(model(x + 0.1 * torch.randn(x.shape)), y)"),),
    "an optimizer whose turn is later": (
        (SETUP, "other = torch.optim.SGD(model[2:].parameters(), lr=0.1)"),
    ),
    "scored in evaluation mode": ((SETUP, DROPS), (STEP, STEP + "        model.eval()\n" + SCORED)),
    "asked in both modes": (
        (SETUP, DROPS), (STEP, STEP + SCORED + "        model.eval()\n" + SCORED),
    ),
    "scored by draws": ((SETUP, DROPS), (STEP, STEP + SCORED.replace("X[k : k + 64]", "X[:64]"))),
    "statistics made anew": (
        (SETUP, "model.insert(1, nn.BatchNorm1d(16, momentum=None))\n" + AGAIN),
        (STEP, STEP + SCORED),
    ),
    "asked once for each step": ((SETUP, DROPS), (STEP, STEP + SCORED.replace("256", "64"))),
    "a copy for each task": (
        (SETUP, "import copy; whole, kept = model, []"), (INSTEAD, FOR_EACH_TASK),
    ),
    "a step for several epochs": (
        (SETUP, "count = 0; data.tensors = [t[:48] for t in data.tensors]"),
        (ZERO, ""), (STEP, NOW_AND_THEN + "            opt.zero_grad()\n"),
        ("shuffle=True", "shuffle=False"), ("range(4)", "range(60)"),
    ),
    "statistics that are copied, too": (
        (SETUP, COPIED),
        (STEP, STEP + AVERAGED.replace("other(x)", f"{BUFFERS}; other(x)")),
    ),
    "means and variances that are averaged": (
        (SETUP, COPIED),
        (STEP, STEP + AVERAGED.replace(".parameters()", ".state_dict().values()").replace(
            "a.lerp_(b, 0.1)", "a.is_floating_point() and a.lerp_(b, 0.1)")),
    ),
    "a second pass that is given the first": (
        (SETUP, CELL), ("loss = " + LOSS, STATE.replace("state.detach()", FIRST)),
    ),
    "state that goes on in order": (
        (SETUP, CELL), ("loss = " + LOSS, STATE), ("shuffle=True", "shuffle=False"),
    ),
    "closure that keeps its batch": (*ASKS_AGAIN, (INSTEAD, DRAWING.format(""))),
    "weights in half precision": ((SETUP, "model.bfloat16(); X.data = X.bfloat16()"),),
    "divergence of logarithms": ((LOSS, MADE.format("log_softmax")),),
    "penalty with its graph": (
        ("loss = " + LOSS, SLOPE.format(", create_graph=True", " + 0.1 * slope.square().mean()")),
    ),
    "inputs moved along a derivative": (
        ("loss = " + LOSS, SLOPE.format(", retain_graph=True", NEARBY)),
    ),
    "samples that are drawn by a derivative": (
        ("loss = " + LOSS, SAMPLED), ("lr=0.5", "lr=0.01"),
    ),
    "the worst place nearby": (("        loss = " + LOSS + "\n", WORST), (ZERO + BACK, "")),
    "backward of its own": ((SETUP, FUNCTION.format("x * x", "2 * g * x")), (LOSS, APPLIED)),
    "straight through": ((SETUP, FUNCTION.format("x.round()", "g")), (LOSS, APPLIED)),
    "surrogate of a clamp": ((SETUP, FUNCTION.format("x.clamp(-1, 1)", "g")), (LOSS, APPLIED)),
    "reversed gradient": (
        (SETUP, FUNCTION.format("x.view_as(x)", "-g")),
        (LOSS, f"{LOSS} + 1e-4 * Own.apply(model(x)).square().mean()"),
    ),
    "gradient that is clipped": (
        (SETUP, FUNCTION.format("x.clone()", "g.clamp(-1e-3, 1e-3)")), (LOSS, APPLIED),
    ),
    "plain": (),
    "zero behind the step": ((ZERO, ""), (STEP, STEP + ZERO)),
    "zero in place": (("opt.zero_grad()", "opt.zero_grad(set_to_none=False)"),),
    "zero by hand": (("opt.zero_grad()", BY_HAND),),
    "none by hand": (("opt.zero_grad()", "for p in model.parameters(): p.grad = None"),),
    "model.zero_grad": (("opt.zero_grad()", "model.zero_grad()"),),
    "accumulation of a mean": (
        (SETUP, "count = 0"), (ZERO, ""), (STEP, f"{NOW_AND_THEN}            opt.zero_grad()\n"),
        (LOSS, f"{LOSS} / 4"),
    ),
    "a loss that is made small twice, for two reasons": ((LOSS, f"{LOSS} / 4 / 4"),),
    "accumulation": (
        (SETUP, "count = 0"), (ZERO, ""), (STEP, f"{NOW_AND_THEN}            opt.zero_grad()\n"),
    ),
    "two passes": ((BACK, TWO_PASSES),),
    "closure": (
        ("torch.optim.SGD(", "torch.optim.LBFGS("), ("lr=0.5", "max_iter=4"),
        (ZERO + BACK + STEP, CLOSURE),
    ),
    "two optimizers": (
        (SETUP, "critic = nn.Linear(8, 1)\nother = torch.optim.Adam(critic.parameters())"),
        (STEP, STEP + CRITIC),
    ),
    "adversaries": (
        (SETUP, "made = nn.Linear(4, 8)\nother = torch.optim.Adam(made.parameters())"),
        (STEP, STEP + ADVERSARY),
    ),
    "validation between": ((LOADER, ASKED + LOADER), ("nn.ReLU()", "nn.Dropout(0.1)")),
    "scheduler of epochs": ((SETUP, RATES), (STEP, f"{STEP}    sched.step()\n")),
    "clipping": ((STEP, f"        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{STEP}"),),
    "autocast and scaler": (
        (SETUP, "scaler = torch.amp.GradScaler('cpu')"), (BACK + STEP, SCALED),
    ),
    "clipping of a scaler": (
        (SETUP, "scaler = torch.amp.GradScaler('cpu')"),
        (BACK + STEP, SCALED.replace("        scaler.step", "        scaler.unscale_(opt)\n"
         "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        scaler.step")),
    ),
    "frozen base": (
        (SETUP, "[p.requires_grad_(False) for p in model[0].parameters()]"),
        ("model.parameters(), lr", "model[2].parameters(), lr"),
    ),
    "teacher in evaluation mode": (
        (SETUP, "teacher = nn.Sequential(nn.Linear(8, 2), nn.Dropout(0.5)).eval()"),
        ("(model(x), y)", "(model(x) + 0 * teacher(x).detach(), y)"),
    ),
    "frozen at first": (
        (SETUP, FROZEN),
        (LOADER, f"{LATER}model.requires_grad_(True); "
         f"opt = {WHOLE}\n{LOADER}"),
    ),
    "a new head, and an optimizer for it": (
        (LOADER, f"{HEAD}{LATER}opt = {WHOLE}\n{LOADER}"),
    ),
    "gradients of an earlier phase": (
        (LOADER, f"{LATER}opt = torch.optim.SGD(model[2].parameters(), lr=0.1)\n{LOADER}"),
        ("model(x), y", "model[2](model[:2](x).detach() if epoch > 1 else model[:2](x)), y"),
        ("opt.zero_grad()", "opt.zero_grad(set_to_none=False)"),
    ),
    "rate that falls to nothing at the end": (
        (SETUP, "sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 64)"),
        (STEP, f"{STEP}        sched.step()\n"),
    ),
    "targets of a copy that follows": (
        (SETUP, "import copy; other = copy.deepcopy(model)"), ("loss = " + LOSS, AHEAD),
        (LOADER, f"{LATER}other.load_state_dict(model.state_dict())\n{LOADER}"),
    ),
    "a head that looks on": (
        (SETUP, "head = nn.Linear(16, 2); opt.add_param_group({'params': head.parameters()})"),
        (LOSS, f"{LOSS} + 0 * head(model[1](model[0](x)) + 0).sum()"),
    ),
    "logarithms of shares": ((LOSS, "nn.functional.nll_loss(model(x).log_softmax(1), y)"),),
    "targets within the range": (
        (LOSS, "nn.functional.mse_loss(model(x)[:, 0].tanh(), x[:, 0].sin())"),
    ),
    "weights put back": (
        (LOADER, f"{LATER}model.load_state_dict(model.state_dict())\n{LOADER}"),
    ),
    "everything loaded": (
        (SETUP, "model.load_state_dict({k: v + 0.01 for k, v in model.state_dict().items()})"),
    ),
    "losses looked at": (("loss.backward()", "loss.backward(); loss.item(); model(x).data"),),
    "outputs fed back": (
        (LOSS, THROUGH_TIME.replace("x + state.detach()", "x + state + state.detach()")),
    ),
    "carried from step to step": (
        (SETUP, "state = torch.zeros(16, 8)"), ("model(x)", "model(x + 0 * state)"),
        (STEP, STEP + "        state = model(x)[:, :1].detach().expand(16, 8)\n"),
    ),
    "two that learn from one another and from labels": (
        (SETUP, "other = nn.Linear(8, 2)\n"
         "opt = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)"),
        (LOSS, f"nn.functional.mse_loss(model(x), other(x)) + {LOSS} + {OF_OTHER}"),
    ),
    "targets of a teacher": (
        (LOSS, "nn.functional.mse_loss(model(x), (y[:, None] + model(x)).detach())"),
    ),
    "entropy taken away": (
        (LOSS, f"{LOSS} - 0.01 * (model(x).softmax(1) * model(x).log_softmax(1)).sum(1).mean()"),
    ),
    "divergence": (
        (LOSS, "-(1 + model(x) - model(x).square() - model(x).exp()).mean()"),
    ),
    "difference of two outputs": (
        (LOSS, "(model(x) - model(x.flip(0)) - 1).square().mean()"),
    ),
    "policy": (("loss = " + LOSS, POLICY + "-(dist.log_prob(a) * (a == y)).mean()"),),
    "policy by ratios": (
        ("loss = " + LOSS,
         POLICY + "-((dist.log_prob(a) - dist.log_prob(a).detach()).exp() * (a == y)).mean()"),
    ),
    "entropy by a factor": (
        ("loss = " + LOSS, POLICY + "dist.log_prob(a).mean() * torch.tensor(0.1)"),
    ),
    "entropy and likelihood": (
        ("loss = " + LOSS, POLICY + "-dist.log_prob(y).mean() - 0.01 * dist.entropy().mean()"),
    ),
    "warm-up": (
        (SETUP, "sched = torch.optim.lr_scheduler.LinearLR(opt, 0.01, total_iters=10)"),
        (STEP, f"{STEP}        sched.step()\n"),
    ),
    "two that train side by side": (
        (SETUP, "made = nn.Linear(8, 1); other = torch.optim.SGD(made.parameters(), lr=0.4)"),
        (STEP, STEP + BESIDE),
    ),
    "outer product that is meant": (
        (LOSS, "(model(x)[:, :1] - model(x)[:, :1].detach().T).square().mean()"),
    ),
}  # fmt: skip


def code(*changes):
    """The loop with something written otherwise."""
    text = BASE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text
