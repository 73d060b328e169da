// Spectra of one matrix, moved through time.

const scrub = { key: null, at: null }; // at: a step, null for the latest

function matricesThere() {
  const found = new Map();
  for (const track of tracks) for (const one of track.state.spectra) if (!found.has(matrixKey(one))) found.set(matrixKey(one), one);
  return found;
}

function spectraOf(track) {
  const found = track.spectra.get(scrub.key);
  return found ? found.all : [];
}

// Steps at which there is a spectrum: of the first run that has some.
function momentsHere() {
  return (tracks.map(spectraOf).find((all) => all.length > 0) || []).map(([step]) => step);
}

function fillMatrices() {
  const there = matricesThere();
  byId("unkept").hidden = there.size > 0;
  byId("unkept").textContent = data.live ? "No spectrum was filed yet." : "No spectrum was filed.";
  byId("scrub").hidden = there.size === 0;
  if (there.size === 0) return;
  const select = byId("matrix");
  if (select.options.length !== there.size) {
    const order = sitesInOrder(new Set([...there.values()].map(({ site }) => site)));
    const sorted = [...there].sort(([, a], [, b]) => order.indexOf(a.site) - order.indexOf(b.site));
    const several = new Set([...there.values()].map(({ view, form }) => `${view} ${form}`)).size > 1;
    const words = ({ site, view, form }) => `${shortened(site, 60)}${several ? ` (${shown(`${view} ${form}`.trim())})` : ""}`;
    select.replaceChildren(...sorted.map(([key, one]) => element("option", { value: key }, words(one))));
    if (!there.has(scrub.key)) scrub.key = sorted[0][0];
  }
  select.value = scrub.key;
}

async function useMatrix(key, step = null) {
  Object.assign(scrub, { key, at: step });
  await Promise.all(tracks.map((track) => track.scrub(key)));
  drawSigma();
}

function nearest(all, step) {
  let best = null;
  for (const one of all) if (!best || Math.abs(one[0] - step) < Math.abs(best[0] - step)) best = one;
  return best;
}

function drawSigma() {
  fillMatrices();
  const moments = momentsHere();
  if (byId("scrub").hidden || moments.length === 0) return;
  const at = scrub.at === null ? moments.length - 1 : moments.indexOf(nearest(moments.map((m) => [m]), scrub.at)[0]);
  const step = moments[at];
  const slider = byId("when");
  slider.max = String(moments.length - 1);
  slider.value = String(at);
  slider.setAttribute("aria-valuetext", `step ${step}`);
  byId("at").textContent = `step ${compact(step)} (${at + 1} of ${moments.length})`;
  byId("earlier").disabled = at === 0;
  byId("later").disabled = at === moments.length - 1;
  drawAtStep(step);
}

function drawAtStep(step) {
  const lines = tracks.flatMap((track) => {
    const all = spectraOf(track);
    if (all.length === 0) return [];
    const colour = ink(INKS[track.index]);
    const now = nearest(all, step);
    const [first] = all;
    const began = first[0] !== now[0] ? [{ one: first, colour: ink("--soft"), dash: [4, 4], words: `${tracks.length > 1 ? `${runName(track)}, ` : ""}first: step ${compact(first[0])}`, fade: true }] : [];
    return [...(track.index === 0 ? began : []), { one: now, colour, words: `${tracks.length > 1 ? `${runName(track)}, ` : ""}step ${compact(now[0])}` }];
  });
  const read = lines.map((each) => ({ ...each, ...(each.one[4] ? valuesOf(each.one[4], each.one[2]) : { sigma: [], at: [] }) }));
  const every = tracks.flatMap((track) => spectraOf(track).filter(([, , , , text]) => text)).flatMap((one) => endsOfSpectrum(one));
  const most = Math.max(2, ...lines.map(({ one }) => one[2]));
  const drawn = chart(byId("sigma"), { low: 0.9, high: most * 1.1, log: true, title: "rank" }, { ...ends(every, true), title: "singular value" });
  within(drawn, () => {
    for (const { sigma, at, colour, dash } of read) line(drawn, at.map((k, i) => [k + 1, sigma[i] > 0 ? sigma[i] : NaN]), { colour, dash, width: dash ? 1.5 : 2 });
  });
  byId("sigma-keys").replaceChildren(...read.map(({ words, colour, dash }) => keyLine(words, colour, Boolean(dash))));
  const zeros = lines.some(({ one }) => one[3] > 0) ? " Values of exactly zero are not drawn." : "";
  const [rows, cols] = lines[lines.length - 1].one[1];
  byId("sigma-says").textContent = `A matrix of ${rows} × ${cols}. The axis holds all steps, so that heights can be compared while time moves.${zeros}`;
}

// The largest and the least that is positive, of a packed spectrum.
function endsOfSpectrum(one) {
  one.ends ||= extent(valuesOf(one[4], one[2]).sigma.filter((v) => v > 0));
  return one.ends;
}

function moveTime(by) {
  const moments = momentsHere();
  const at = Math.min(Math.max(Number(byId("when").value) + by, 0), moments.length - 1);
  scrub.at = at === moments.length - 1 ? null : moments[at];
  drawSigma();
}
