// Spectra of one matrix, moved through time.

const scrub = { key: null, at: null }; // at: a step, null for the latest

function spectraOf(track) {
  return track.spectra.get(scrub.key)?.all || [];
}

// Steps at which there is a spectrum: of the first run that has some.
function moments() {
  return (tracks.map(spectraOf).find((all) => all.length > 0) || []).map(([step]) => step);
}

async function useMatrix(key, step = null) {
  Object.assign(scrub, { key, at: step });
  await Promise.all(tracks.map((track) => track.scrub(key)));
  drawSigma();
}

// The place of the step that is nearest.
function nearest(steps, step) {
  const far = (i) => Math.abs(steps[i] - step);
  return steps.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0);
}

// Of each run the spectrum that is nearest to the step, and of the first one also its first.
function linesAtStep() {
  return tracks.filter((track) => spectraOf(track).length > 0).flatMap((track) => {
    const all = spectraOf(track);
    const at = scrub.at === null ? all.length - 1 : nearest(all.map(([step]) => step), scrub.at);
    const mark = ([step, , count, , text], colour, dash, first = "") => {
      const title = `${several ? `${track.name}, ` : ""}${first}step ${compact(step)}`;
      const looks = { title, colour, dash, dots: false };
      return spectrumMark({ title, ...valuesOf(text, count) }, looks);
    };
    const now = mark(all[at], tone(track.index), []);
    if (track.index > 0 || at === 0) return [now];
    return [mark(all[0], ink("--soft"), [4, 4], "first: "), now];
  });
}

// The axis holds all steps, so that heights can be compared while time moves.
const sigmaChart = new Chart(byId("sigma"), () => {
  const every = tracks.flatMap(spectraOf);
  const values = every.flatMap((one) => {
    return (one.ends ??= extent(valuesOf(one[4], one[2]).sigma.filter((v) => v > 0)));
  });
  const most = Math.max(2, ...every.map(([, , count]) => count));
  const y = { ...ends(values, true), title: "singular value" };
  return { x: rankAxis(most), y, marks: linesAtStep() };
});

function drawSigma() {
  const none = there("spectra").size === 0;
  byId("unkept").hidden = !none;
  byId("scrub").hidden = none;
  const [steps, slider] = [moments(), byId("when")];
  if (steps.length === 0) return;
  byId("matrix").value = scrub.key;
  const last = steps.length - 1;
  const at = scrub.at === null ? last : nearest(steps, scrub.at);
  Object.assign(slider, { max: last, value: at });
  slider.setAttribute("aria-valuetext", `step ${steps[at]}`);
  byId("at").textContent = `step ${compact(steps[at])} (${at + 1} of ${steps.length})`;
  byId("earlier").disabled = at === 0;
  byId("later").disabled = at === last;
  const key = ({ title, colour, dash }) => keyLine(title, colour, dash.length > 0);
  byId("sigma-keys").replaceChildren(...linesAtStep().map(key));
  const all = tracks.flatMap(spectraOf);
  const [rows, cols] = all[0][1];
  const some = all.some(([, , , count]) => count > 0);
  const zeros = some ? " Values of exactly zero are not drawn." : "";
  byId("sigma-says").textContent =
    `A matrix of ${rows} × ${cols}. The axis holds all steps, so that heights can be compared ` +
    `while time moves.${zeros}`;
  sigmaChart.draw();
}

function moveTime(by) {
  const steps = moments();
  const at = Math.min(Math.max(Number(byId("when").value) + by, 0), steps.length - 1);
  scrub.at = at === steps.length - 1 ? null : steps[at];
  drawSigma();
}
