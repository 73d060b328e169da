"""What other packages say of training scripts, beside what is said here.

python -m benchmarks.peers.scripts --split report             # faulty and patched scripts
pip install torch-audit==0.3.0 torchtest2==0.1.0              # into the environment, or PYTHONPATH
python -m benchmarks.peers.scripts --split report --packages TrainCheck --first 24  # twelve pairs
pip install traincheck==0.2.0                                 # into the environment, no other way

Each is used as its README says, and helped where it asks for what a script does not hand over:
torch-audit's `autopatch` is given the first model that is called and the first optimizer that
steps, and audits every step to the sixtieth; torchtest2's `check_model` is given model, batch, loss
and optimizer of the step that sigmascope has recorded, as they were before it; TrainCheck is given
a healthy run of the same script, `invariants`. They name no cause, or in no order: it is named
where any of their words would lead to the patch, `NAMES`, by hand and in their favour.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.peers.invariants import violated
from benchmarks.script_diagnoses import scripts

CUT = "cut-graph rebuilt-loss no-backward"
NEVER = "optimizer-of-other-weights partial-parameters unregistered-layers"
LARGE = "rate-high summed-loss unscaled-inputs unscaled-targets gradients-never-zeroed"
NAMES: Mapping[str, str] = {
    "TA100": LARGE,
    "TA102": LARGE,
    "TA103": f"dead-units zero-weights frozen-layers {CUT}",
    "TA104": f"{CUT} {NEVER} zeroed-before-step step-before-backward",
    "TA105": "dead-units zero-weights",
    "TA301": "unscaled-inputs",
    "TA302": "destroying-augmentation same-batch",
    "TA304": "batch-of-one",
    "TA500": f"unregistered-layers {CUT}",
    "optimizer_coverage": NEVER,
    "gradient_flow": f"dead-units zero-weights {CUT} {NEVER}",
    "gradient_magnitude": LARGE,
    "params_change": f"{CUT} {NEVER} no-step zeroed-before-step step-before-backward",
    "frozen_params": "frozen-layers",
    "output_range": "bounded-output",
    "output_varies": "dead-units zero-weights too-deep",
    "input_dependency": "dead-units inverted-mask",
    "batch_independence": "softmax-dimension",
    "initial_loss": "double-softmax double-sigmoid broadcast-loss unscaled-targets",
    # in rules of TrainCheck: of the twelve pairs that it was asked of
    "zero_grad() always occurs": "gradients-never-zeroed",
    "step() changes Parameter.data:": f"{CUT} {NEVER}",
    "requires_grad consistent": CUT,
    "with grad_fn=": "attached-target",
    "GradScaler.unscale_()": "strong-clipping scaled-gradients",
    "GradScaler.step()": "scaled-gradients",
    "_reduction.get_enum()": "summed-loss",
}
AUDIT = """
import json, runpy, sys, torch
from torch_audit import autopatch
from torch.optim.optimizer import register_optimizer_step_post_hook as behind
found, seen = [], {"model": None, "auditor": None, "steps": 0}
class Kept:
    def report(self, result): pass
class Enough(BaseException): pass
def called(module, args):
    own = next(module.parameters(), None) is not None
    if seen["model"] is None and own and torch.is_grad_enabled(): seen["model"] = module
def stepped(optimizer, *_):
    seen["steps"] += 1
    if seen["auditor"] is None and seen["model"] is not None:
        seen["auditor"] = autopatch(seen["model"], optimizer=optimizer, every_n_steps=1,
                                    reporters=[Kept()], run_static=True, run_init=True)
    if seen["steps"] >= 60: raise Enough
torch.nn.modules.module.register_module_forward_pre_hook(called)
behind(stepped)
sys.argv = sys.argv[1:]
try: runpy.run_path(sys.argv[0], run_name="__main__")
except BaseException: pass
if seen["auditor"] is not None:
    found = seen["auditor"].finish(report=False).findings
print("SAID " + json.dumps(sorted({f.rule_id for f in found if f.severity.name != "INFO"})))
"""
CHECK = """
import json, sys, torch, torchtest2
from sigmascope.diagnosis.programs.data import rows_of
from sigmascope.diagnosis.scripts.observer import Observer, Stopped
from sigmascope.diagnosis.scripts.running import Script, program_of_run, started
watch = Observer(steps=20, recorded=True)
try:
    with watch: started(Script(sys.argv[1]))
except BaseException: pass
program = program_of_run(watch.run)
inputs, targets = program.data
main = watch.run.main
kind = getattr(torch.optim, main.kind)
optimizer = kind(program.model.parameters(), lr=max(main.rates))
report = torchtest2.check_model(program.model.train(), inputs, targets, loss_fn=program.loss,
                                optimizer=optimizer, verbose=False)
said = [r.name for r in report.results if r.status.name in ("FAIL", "WARN")]
print("SAID " + json.dumps(said))
"""
USED = {"torch-audit": AUDIT, "torchtest2": CHECK}


def said_of(job: tuple[str, Path]) -> list[str] | None:
    """What a package says of a script; None where it could not be asked."""
    package, file = job
    if package == "TrainCheck":
        return violated(file)
    words = [sys.executable, "-c", USED[package], str(file)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.split("\n") if line.startswith("SAID ")]
    return json.loads(lines[-1][5:]) if lines else None


def main() -> None:
    """Ask, and print what was said with the shares."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    ask.add_argument("--split", default="", choices=["", "tune", "report"])
    ask.add_argument("--packages", nargs="*", default=[*USED])
    ask.add_argument("--first", type=int, default=None, help="so many files alone")
    ask.add_argument("--jobs", type=int, default=1)
    given = ask.parse_args()
    chosen = [*scripts(given.kinds, given.split)][: given.first]
    for package in given.packages:
        counts: dict[str, list[bool]] = {}
        with ProcessPoolExecutor(given.jobs) as pool:
            told = pool.map(said_of, [(package, file) for file, _, _ in chosen])
            for (_, entry, role), said in zip(chosen, told, strict=True):
                words = "not asked" if said is None else "; ".join(said) or "nothing"
                what = f"{package:12} {role:8} {entry['name']:24} {entry['fault']:26}"
                print(f"{what} {words}", flush=True)
                known = [key for key, faults in NAMES.items() if entry["fault"] in faults.split()]
                named = any(key in word for word in said or () for key in known)
                for what, hit in (("speaks", bool(said)), ("names the cause", named)):
                    counts.setdefault(f"{package} {role}: {what}", []).append(hit)
        for what, hits in counts.items():
            print(f"{what:44} {sum(hits)} of {len(hits)}", flush=True)


if __name__ == "__main__":
    main()
