"""Command lines that a careless or a hostile person could type, as hypothesis strategies."""

from hypothesis import strategies as st

from tests.fuzz.world import (
    BAD_LOADERS,
    BAD_MODELS,
    BAD_PROGRAMS,
    ESCAPE,
    GOOD_LOADERS,
    GOOD_MODELS,
    GOOD_PROGRAMS,
    SCRIPTS,
)

ODD = (
    "", " ", "-", "--", "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 400, "1e-300", "0x10", "١",
    "1,2", "None", "[]", ESCAPE, "a\nb", "\udce9",
    "../..", "/", "~", "~nobody/x", "con:", "%s", "{}",
    "x" * 300, "x/" * 2000, "$HOME", "\u202e", "a:b:c", "?", "??", "mlp?depth=", "é",
)  # fmt: skip
USUAL = ("out.json", "out.html", "out.svg", "out.pt", "out.run", "-")
PLACES = (
    "out.json", "out.html", "out.svg", "out.pt", "out.run", "folder", "folder/out.json", "none/out",
    "notes.txt", "table.csv", "mine.json", "mine.html", "m.py", "x.npy", "good.pt", "link.json",
    "lost.json", "loop", "pipe.npy", "other.db", "half.run", "empty.run", "/dev/full", "/dev/null",
    "/dev/stdout", "/proc/self/mem", "-", "new\nname.json", f"{ESCAPE}.json",
)  # fmt: skip
BUILT_IN = (
    "mlp?depth=1&width=4", "mlp?depth=2&width=6&norm=batch", "resnet?depth=8&width=2", "mlp",
    "mlp?depth=1000000", "mlp?width=99999999999", "mlp?depth=-1", "mlp?depth=1e9", "mlp?x=1",
    "mlp?depth=2&width=4&norm=odd", "vgg?depth=11&width=1", "mlq", "mlp?&&==",
    "mlp?depth=" + "9" * 5000,
)  # fmt: skip
DATA = (
    "digits", "gaussian", "gaussian?shape=6", "gaussian?shape=99999999999x9", "gaussian?shape=0",
    "gaussian?shape=1x8x8", "gaussian?shape=" + "9" * 5000, "digits?split=test", "cifar10?split=no",
    "gaussian?shape=6&shape=7",
)  # fmt: skip


def some(*values):
    return lambda rng: rng.choice(values)


def of(*ways):
    """Mostly the first way, which is what is meant; now and then another, or something odd."""

    def draw(rng):
        chance = rng.random()
        if chance < 0.04:
            return rng.choice(ODD)
        return rng.choice(ways if chance < 0.3 else ways[:1])(rng)

    return draw


def numbers(*usual):
    odd = ("-5", "1.5", "2147483648", str(2**70), "nan", "inf", "-0", "1e-300", "1e308", "+3")
    return of(some(*usual), some(*odd))


def both(*ways):
    return lambda rng: [way(rng) for way in ways]


def commands(files):
    """Words of one command line; `files` as `world.build` returns them."""
    data = of(
        some("m.py:batch", "m.py:batch", "gaussian?shape=6", *(f"m.py:{n}" for n in GOOD_LOADERS)),
        some(*DATA, *(f"m.py:{n}" for n in BAD_LOADERS)),
        some(*files["arrays"], *files["others"], "data.pt", "evil.pt"),
    )
    model = of(
        some("m.py:plain", *(f"m.py:{n}" for n in GOOD_MODELS)),
        some(*(f"m.py:{n}" for n in BAD_MODELS), "m.py:", "m.py", "nope.py:f", "syntax.py:f"),
        some(*BUILT_IN, "hf", "hf_pipe", "pipe.py:f", "folder", "os.path:join", "good.pt"),
    )
    weights = of(some("good.pt", "good.safetensors"), some(*files["weights"], *files["others"]))
    place = of(some(*USUAL), some(*PLACES))
    runs = of(some("kept.run"), some("half.run", "empty.run", "other.db", *files["others"]))
    common = {
        "--data": data, "--checkpoint": weights, "--samples": numbers("4", "8", "1"),
        "--seed": numbers("0", "3"), "--batch-dim": numbers("0", "0", "1"),
        "--outputs": numbers("2", "16"), "--memory": of(some("1GB", "8 GiB", "100MB")),
        "--loss": of(some("cross_entropy", "mse"), some("m.py:plain", "l1_loss", "no.py:f", "sum")),
        "--device": of(some("cpu"), some("cuda", "cuda:99", "meta", "cpu:1", "privateuseone")),
        "--optimizer": of(some("adam", "sgd")), "--folder": of(some("folder", "nowhere")),
    }  # fmt: skip
    figure = of(
        some("out.pdf", "out.svg", "out.png"), some("out.jpg", "out", "none/out.pdf"), place
    )
    json = {"--json": place, "--plot": figure}
    budget = {"--budget": of(some("60s", "2min", "0.01s"), some("0", "-1", "abc", "1e9h"))}
    options = {
        "profile": {**common, **json, **budget, "--fit": None, "--no-fit": None, "--html": place,
                    "--run": place, "--step": numbers("0", "7"),
                    "--strict": None, "--views": of(some("weights", "representations", "features",
                    "gradients", "setup", "balances", "bottleneck", "conditioning"))},
        "check": {**common, **json, "--theorem": of(some("rank-participation")), "--strict": None},
        "remedy": {**common, **json, **budget, "--save": place,
                   "--apply": of(some("batch-norm", "best"))},
        "balances": {**common, **json, "--tree": place, "--output": numbers("0", "2"),
                     "--whole": None},
        "bottleneck": {**common, **json, "--picture": place, "--kernel": None},
        "compress": {**common, **json, "--save": place, "--tolerance": numbers("0.1", "0.5")},
        "landscape": {**common, **json, "--html": place, "--points": numbers("3", "5"),
                      "--surface": of(some("random", "hessian", "good.pt")), "--squared": None,
                      "--skip": of(some("0", "1", "0:2")), "--rho": numbers("0.5", "1"),
                      "--extent": numbers("0.1", "1"), "--double": None, "--regions": None,
                      "--curvature": of(some("hessian", "fisher", "gauss-newton")),
                      "--activation": of(some("tanh", "gelu", "linear"))},
    }  # fmt: skip
    bare = {
        "predict": {**json, "--width": numbers("4", "8"), "--depth": numbers("3", "9"),
                    "--gamma": numbers("0.5", "1"), "--layers": numbers("20", "50"),
                    "--samples": numbers("4"), "--chains": numbers("2"), "--seed": numbers("0"),
                    "--weights": of(some("gaussian", "uniform", "asymmetric"))},
        "theorems": {}, "reproduce": {
            "--quick": None, "--out": place, "--device": common["--device"],
        },
        "": {"--help": None, "--version": None},
    }  # fmt: skip
    first = {
        "compare": lambda rng: [rng.choice((weights, weights, runs))(rng) for _ in range(2)],
        "scale": both(numbers("8", "64")),
        "rank": both(model, model), "scan": both(weights),
        "export": both(of(some("kept.run"), some("half.run", "other.db", *files["others"]))),
        "view": lambda rng: both(*[runs] * rng.choice([1, 1, 2]))(rng),
        "bottleneck train": both(data),
    }  # fmt: skip
    program = of(
        some("m.py:program", *(f"m.py:{n}" for n in GOOD_PROGRAMS)),
        some(*(f"m.py:{n}" for n in BAD_PROGRAMS), "m.py:", "nope.py:f", "pipe.py:f"),
    )
    script = of(
        some("train.py", *SCRIPTS),
        some("nothing.py", "null.py", "waits.py", "syntax.py", "pipe.py", "nope.py", "folder"),
    )
    names = ("rank-collapse", "stable rank", "batch-norm", "bottleneck rank", "rank-colapse", "b")
    first |= {
        "diagnose": lambda rng: rng.choice(
            [
                lambda r: [program(r), "--budget", "3s"],
                lambda r: [script(r), "--seconds", "4", "--steps", r.choice(["8", "20", "60"])],
            ]
        )(rng),
        "explain": both(of(some(*names), some(*ODD))),
    }
    rest = {
        "diagnose": {**json, "--html": place, "--strict": None, "--cure": None, "--write": place,
                     "--scratch": of(some("folder", "none/at all", "notes.txt")), "-m": None,
                     "--samples": numbers("8"), "--loss": common["--loss"],
                     "--device": common["--device"], "--seed": numbers("0")},
        "explain": {"--json": place},
        "scan": {**json, "--against": weights, "--html": place, "--run": place, "--lines": place,
                 "--only": of(some("*", "0*", "*weight"), some(ESCAPE, "[")), "--plan": None,
                 "--skip": of(some("2*")), "--exact": None, "--leading": None, "--heads": None,
                 "--quantities": of(some("stable rank", "spikes", "relative change")),
                 "--rules": of(some("rules.toml", "notes.txt"),
                               some("pipe.toml", "zero.toml", "deep.toml", *files["others"])),
                 "--seed": numbers("0", "3"),
                 "--workers": of(some("1"), some("0", "5000")), "--no-spectra": None,
                 "--memory": of(some("1GB", "1MB")), "--whole": None, "--strict": None},
        "rank": {**common, **json, **budget, "--passes": numbers("60", "54")},
        "compare": {**common, **json, "--model": model, "--learning-rate": numbers("0.1"),
                    "--loss-drop": numbers("1"), "--momentum": numbers("0.9"),
                    "--steps": numbers("3")},
        "scale": {**json, "--condition": numbers("3"), "--slope": numbers("0.1"),
                  "--probability": numbers("0.9"), "--activation": of(some("relu", "leaky", "abs")),
                  "--law": of(some("concentration", "tracy-widom"))},
        "view": {"--html": place, "--port": numbers("0", "80", "70000")},
        "export": {"--to": of(some("csv", "json", "parquet")), "--out": place,
                   "--table": of(some("readings", "spectra", "checks", "layers"))},
        "bottleneck train": {**json, "--file": place, "--picture": place, "--width": numbers("4"),
                             "--ridge": numbers("0.01"), "--seed": numbers("1"),
                             "--samples": numbers("6", "8"), "--folder": of(some("folder"))},
    }  # fmt: skip
    needed = {
        "bottleneck train": ("--depths", "2", "--steps", "3"),
        "predict": ("--layers", "20", "--width", "4", "--depth", "3"),
        "export": ("--to", "csv"),
        "view": ("--html", "out.html"),  # else it serves until it is interrupted
    }
    lines = [_line(name, both(model), known) for name, known in options.items()]
    lines += [_line(name, both(), known, needed.get(name, ())) for name, known in bare.items()]
    lines += [_line(name, first[name], rest[name], needed.get(name, ())) for name in first]
    weighed = [*lines, *lines[:7]]  # commands that measure, twice
    return st.randoms(use_true_random=True).map(lambda rng: rng.choice(weighed)(rng))


def _line(name, heads, known, needed=()):
    def words(rng):
        said = [*name.split(), *heads(rng)]
        names = rng.sample(sorted(known), rng.randint(0, min(4, len(known))))
        if "--data" in known and "--data" not in names and rng.random() < 0.9:
            said += ["--data", "m.py:batch"]
        for option in names:
            said += [option] if known[option] is None else [option, known[option](rng)]
        return tuple(said + ([] if set(needed) & set(said) else list(needed)))

    return words
