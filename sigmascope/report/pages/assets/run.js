// The page of a run: what it says above all, and how it follows what is new.

const SOON = 1000; // milliseconds between questions
const LATER = 4000; // where nobody looks, or the server does not answer
const heard = { ok: true };

function drawOverSteps() {
  drawTimeline();
  drawCurves();
  drawMaps();
}

async function showQuantity(key) {
  useQuantity(key);
  byId("quantity").value = key;
  await loadCurves();
  fillBoxes();
  drawCurves();
  drawMaps();
}

// One layer alone in the curves, and its spectrum at that step.
function openSite(site, step) {
  chooseSites(state.chosen && state.chosen.size === 1 && state.chosen.has(site) ? null : new Set([site]));
  const found = [...matricesThere()].find(([, one]) => one.site === site);
  if (found) useMatrix(found[0], step);
}

async function loadCurves() {
  const keys = [...new Set([lossKey(), meansKey(), state.key])].filter((key) => key !== null);
  await Promise.all(tracks.flatMap((track) => keys.map((key) => track.load(key))));
}

function ago(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} minutes ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} hours ago` : `${Math.round(seconds / 86400)} days ago`;
}

function stateWords(track) {
  const { step, time, reading, rows } = track.state;
  const name = tracks.length > 1 ? `${runName(track)}: ` : "";
  if (step === null) return `${name}${data.live ? "waiting for the first reading" : "no reading"}`;
  if (!data.live) return `${name}until step ${compact(step)}, ${new Date(time).toLocaleString()}`;
  return reading ? `${name}reading the file, ${rows.toLocaleString("en")} rows so far` : `${name}step ${compact(step)}, ${ago(time)}`;
}

function fillStatus() {
  const words = tracks.map(stateWords).join("; ");
  const lead = data.live ? (heard.ok ? "Following. " : "The server does not answer any more; what is here stays. ") : "";
  byId("status").textContent = `${lead}${tracks.length > 1 ? words : titled(words)}.`;
}

function fillHead() {
  byId("name").textContent = tracks.map(({ state }) => shown(state.name)).join(" and ");
  const troubles = tracks.flatMap((track) => {
    const name = tracks.length > 1 ? `${runName(track)}: ` : "";
    const say = (words, bad) => (words ? [element("p", { class: `empty trouble${bad ? " bad" : ""}` }, `${name}${shown(words)}`)] : []);
    return [...say(track.state.note, false), ...say(track.state.trouble, true)];
  });
  byId("troubles").replaceChildren(...troubles);
  byId("foot").textContent = data.live
    ? "Served by sigmascope on this machine alone. Curves are thinned to what a screen shows, and keep their extremes."
    : "Written by sigmascope. This file is complete: it needs no network and sends nothing. Curves are thinned to what a screen shows, and keep their extremes; the run file has every digit.";
  fillStatus();
}

function fillTiles() {
  const made = tracks.flatMap((track) => {
    const { state } = track;
    const of = tracks.length > 1 ? `, ${runName(track)}` : "";
    if (state.step === null) return [];
    const now = state.alarms.filter(({ end }) => end === null);
    const worst = now.some(({ severity }) => severity === "error") ? "error" : now.some(({ severity }) => severity === "warning") ? "warning" : "";
    const loss = [...track.of(lossKey()).lines.values()][0];
    const known = state.depths.filter((depth) => depth !== null).length;
    const places = known || state.sites.filter((site) => !site.startsWith("(")).length;
    return [
      tile(`last step${of}`, compact(state.step), ""),
      ...(loss ? [tile(`loss of step ${compact(loss.steps[loss.steps.length - 1])}${of}`, compact(loss.values[loss.values.length - 1]), "")] : []),
      tile(`${now.length === 1 ? "alarm" : "alarms"} in force${of}`, String(now.length), worst || (now.length === 0 ? "good" : "")),
      ...(track.index === 0 ? [tile(`${known ? "layer" : "place"}${places === 1 ? "" : "s"}`, String(places), "")] : []),
    ];
  });
  byId("tiles").replaceChildren(...made);
}

function fillSettings() {
  const names = [...new Set(tracks.flatMap(({ state }) => Object.keys(state.about)))];
  if (names.length === 0) {
    byId("words").replaceChildren(element("p", {}, "No word about the circumstances was filed."));
    return;
  }
  const head = tracks.length > 1 ? [element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "setting"), ...tracks.map((track) => element("th", { scope: "col" }, runName(track)))))] : [];
  const lines = names.map((name) => {
    const cells = tracks.map(({ state }) => state.about[name]);
    const differs = new Set(cells).size > 1;
    return element("tr", differs ? { class: "differs" } : {}, element("th", { scope: "row" }, shown(name)), ...cells.map((cell) => element("td", {}, cell === undefined ? "–" : shown(cell))));
  });
  byId("words").replaceChildren(element("table", {}, ...head, element("tbody", {}, ...lines)));
}

function fillSkipped() {
  const found = new Map();
  for (const { state } of tracks) {
    for (const [site, what, why, step] of state.skipped) {
      const key = JSON.stringify([what, why]);
      if (!found.has(key)) found.set(key, [what, `${why} (from step ${compact(step)} on)`, []]);
      found.get(key)[2].push(site);
    }
  }
  reasons("skipped", [...found.values()], [], "Nothing was left out.");
}

function fillPage() {
  fillHead();
  fillTiles();
  fillAlarms();
  fillSettings();
  fillSkipped();
}

// Draw what there is, once it is here.
async function showAll() {
  fillQuantities();
  await loadCurves();
  fillPage();
  fillBoxes();
  fillMatrices();
  if (scrub.key !== null) await Promise.all(tracks.map((track) => track.scrub(scrub.key)));
  drawOverSteps();
  drawSigma();
}

async function ask() {
  let changed = false;
  try {
    const seen = tracks.map(({ state }, i) => `seen${i}=${state.version}`).join("&");
    const { runs } = await get(`/state?${seen}`);
    changed = tracks.map((track, i) => track.heed(runs[i])).some(Boolean);
    if (changed) await showAll();
    heard.ok = true;
  } catch (error) {
    if (!(error instanceof Unheard)) throw error;
    heard.ok = false;
  }
  fillStatus();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  setTimeout(ask, document.hidden || !heard.ok ? LATER : SOON);
}

function wire() {
  byId("quantity").addEventListener("change", (event) => showQuantity(event.target.value));
  byId("log").addEventListener("change", (event) => {
    state.log = event.target.checked;
    drawCurves();
    drawMaps();
  });
  byId("marks").addEventListener("change", (event) => {
    state.marks = event.target.checked;
    drawCurves();
  });
  byId("whole").addEventListener("click", () => lookAt(null));
  byId("filter").addEventListener("input", fillBoxes);
  byId("every").addEventListener("click", () => chooseSites(null));
  byId("none").addEventListener("click", () => chooseSites(new Set()));
  byId("matrix").addEventListener("change", (event) => useMatrix(event.target.value));
  byId("when").addEventListener("input", () => moveTime(0));
  byId("earlier").addEventListener("click", () => moveTime(-1));
  byId("later").addEventListener("click", () => moveTime(1));
}

const redraw = () => {
  drawOverSteps();
  drawSigma();
};
wire();
fillPage();
follow(redraw);
new ResizeObserver(once(redraw)).observe(document.querySelector("main"));
if (data.live) ask();
else showAll().then(() => (document.documentElement.dataset.ready = String(Math.round(performance.now()))));
