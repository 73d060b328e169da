"""A stand-in for `Watch` where the room of watching does not have it yet."""

from sigmascope import watching
from sigmascope.gate import Closing
from sigmascope.records import Estimate, Finding, Reading
from sigmascope.store import Run
from sigmascope.watching import LOSS, Look


class Watch(Closing):
    def __init__(
        self,
        model,
        *optimizers,
        run=None,
        sinks=(),
        budget=0.02,
        probe_batch=None,
        targets=None,
        loss=None,
        start=None,
    ):
        self.steps, self.alarms = start or 0, ()
        self._model, self._sinks = model, sinks
        self._run = None if run is None else Run(run)
        self._hooks = [o.register_step_post_hook(self._stepped) for o in optimizers]

    def _stepped(self, *_):
        self.steps += 1
        readings = [
            Reading(n, "gradient norm", Estimate.exactly(float(p.grad.norm())), "watch")
            for n, p in self._model.named_parameters()
            if p.grad is not None
        ]
        self._send(Look(self.steps, tuple(readings)))

    def _send(self, look):
        if self._run is not None:
            self._run.add(step=look.step, readings=look.readings, findings=look.findings)
        for sink in self._sinks:
            sink.write(look)

    def step(self, loss=None):
        value = float(loss)
        reading = Reading(LOSS, "loss", Estimate.exactly(value), "watch")
        found = ()
        if value > 100:
            found = (Finding("spike", LOSS, "error", (reading,), "The loss is large.", "x 2020"),)
            self.alarms = found
        self._send(Look(self.steps, (reading,), findings=found))
        return found

    def close(self):
        while self._hooks:
            self._hooks.pop().remove()
        if self._run is not None:
            self._run.close()
        for sink in self._sinks:
            sink.close()


if not hasattr(watching, "Watch"):
    watching.Watch = Watch
