// The page of a run: spectra moved through time, what the controls do, and how it follows what is
// new.

const SOON = 1000; // milliseconds between questions
const LATER = 4000; // where nobody looks, or the server does not answer
const pieces = new Map(); // of the page, as the server last wrote them

// ---------------------------------------------------------------------------------------------
// Spectra of one matrix.

const spectraOf = (track) => track.spectra.get(state.matrix)?.every ?? [];

// Steps at which there is a spectrum, of the first run that has some, and the place of the one that
// is looked at: the nearest.
function moments(all = tracks.map(spectraOf).find((some) => some.length > 0) || []) {
  const when = all.map(({ step }) => step);
  const near = () => nearest(when, (step) => Math.abs(step - state.at));
  return { when, at: state.at === null ? when.length - 1 : near() };
}

// Of each run the spectrum that is nearest to the step, and of the first one also its first. The
// axis holds all steps, so that heights can be compared while time moves.
new Chart(byId("sigma"), {}, () => {
  const every = tracks.flatMap(spectraOf);
  const marks = tracks.flatMap((track) => {
    const all = spectraOf(track);
    const { at } = moments(all);
    const mark = (one, colour, dash, first = "") => {
      const title = `${several ? `${track.name}, ` : ""}${first}step ${compact(one.step)}`;
      return spectrumMark({ ...one, title }, { title, colour, dash, dots: false });
    };
    if (all.length === 0) return [];
    const moved = track.index === 0 && at > 0;
    const first = moved ? [mark(all[0], ink("--soft"), [4, 4], "first: ")] : [];
    return [...first, mark(all[at], tone(track.index), [])];
  });
  const x = rankAxis(Math.max(2, ...every.map(({ count }) => count)));
  const y = { ...ends(every.flatMap(({ sigma }) => sigma), true), title: "singular value" };
  const keys = marks.map(({ title, colour, dash }) => keyOf(title, colour, dash.length > 0));
  return { x, y, marks, keys };
});

function moveTime(by) {
  const { when } = moments();
  const at = Math.min(Math.max(Number(byId("when").value) + by, 0), when.length - 1);
  state.at = at === when.length - 1 ? null : when[at];
  redraw();
}

// ---------------------------------------------------------------------------------------------
// What is looked at.

// What stands beside the charts.
frames.push(() => {
  const { low, high } = steps.ends;
  byId("alarmed").style.cssText = `--low: ${low}; --high: ${high}`;
  const [read, lost] = [sitesHere().length > 0, lossMarks().length > 0];
  const [none, { when, at }] = [there("spectra").size === 0, moments()];
  each("hidden", { unmapped: read, mapped: !read, unkept: !none, scrub: none });
  each("hidden", { "loss-figure": !lost, "curve-figure": !panelShown() });
  if (state.key) byId("quantity").value = state.key; // the server may have written its menu anew
  if (when.length === 0) return;
  const last = when.length - 1;
  byId("matrix").value = state.matrix;
  Object.assign(byId("when"), { max: last, value: at });
  byId("when").setAttribute("aria-valuetext", `step ${when[at]}`);
  byId("at").textContent = `step ${compact(when[at])} (${at + 1} of ${when.length})`;
  each("disabled", { earlier: at === 0, later: at === last });
  byId("shape").textContent = tracks.flatMap(spectraOf)[0].shape.join(" × ");
});

// Boxes for the layers that the filter finds.
function fillBoxes() {
  const [here, shown, holds] = [sitesHere(), sitesShown(), search("filter")];
  const boxes = here.filter((site) => holds(site.toLowerCase())).map((site) => {
    const box = element("input", { type: "checkbox", value: site });
    box.checked = shown.includes(site);
    return element("label", {}, box, named(shortened(site, 48)));
  });
  byId("boxes").replaceChildren(...boxes);
  const count = shown.length;
  const of = count === here.length ? `all ${count}` : `${count} of ${here.length}`;
  byId("chosen").textContent = `Layers: ${of}`;
}

function chooseSites(chosen) {
  state.chosen = chosen && sitesHere().every((site) => chosen.has(site)) ? null : chosen;
  fillBoxes();
  curve.draw();
}

// Load what is wanted and is not here yet, and draw it.
async function load(wanted) {
  if (wanted.key) {
    const { means, log } = there("panels").get(wanted.key);
    byId("log").checked = log;
    byId("meaning").textContent = means;
  }
  Object.assign(state, wanted);
  const { single, means } = lossKeys();
  const keys = [...new Set([single, means, state.key])];
  const wants = [["spectra", state.matrix], ...keys.map((key) => ["panels", key])];
  await Promise.all(tracks.flatMap((track) => wants.map((want) => track.load(...want))));
  fillBoxes();
  redraw();
}

// All that there is; the runs say what is looked at first.
function loadAll() {
  const first = tracks.map((track) => track.state.first).find((key) => key);
  const matrix = there("spectra").has(state.matrix) ? state.matrix : byId("matrix").value || null;
  return load({ matrix, ...(there("panels").has(state.key) || !first ? {} : { key: first }) });
}

// One layer alone in the curves, and its spectrum at that step.
function openSite(site, step) {
  const alone = state.chosen?.size === 1 && state.chosen.has(site);
  chooseSites(alone ? null : new Set([site]));
  const found = [...there("spectra").values()].find((one) => one.site === site);
  if (found) load({ matrix: found.key, at: step });
}

// What is new, and pieces of HTML that the server wrote as it wrote the page: text in them is
// escaped, and what would act does not, by the page's own policy.
async function ask() {
  const seen = tracks.map((track, i) => `seen${i}=${track.state.version}`).join("&");
  const heard = await get(`/state?${seen}`);
  const silent = { status: "The server does not answer any more; what is here stays." };
  const open = byId("past")?.open;
  for (const [id, text] of Object.entries(heard?.pieces ?? silent)) {
    if (pieces.get(id) === text) continue;
    pieces.set(id, text);
    const { body } = new DOMParser().parseFromString(text, "text/html");
    byId(id).replaceChildren(...body.childNodes);
  }
  if (open !== undefined && byId("past")) byId("past").open = open;
  if (heard && tracks.map((track, i) => track.heed(heard.runs[i])).some(Boolean)) await loadAll();
  setTimeout(ask, heard && !document.hidden ? SOON : LATER);
}

// The quantity that shows an alarm, at its layer.
pressed("alarm", async (words) => {
  const [key, site] = JSON.parse(words);
  if (there("panels").has(key)) await load({ key });
  if (sitesHere().includes(site)) chooseSites(new Set([site]));
  byId("curves").scrollIntoView();
});
listen("change", ["quantity"], ({ target }) => load({ key: target.value }));
listen("change", ["matrix"], ({ target }) => load({ matrix: target.value, at: null }));
listen("change", ["boxes"], ({ target }) => {
  const others = sitesShown().filter((site) => site !== target.value);
  chooseSites(new Set(target.checked ? [...others, target.value] : others));
});
listen("input", ["filter"], fillBoxes);
listen("click", ["every"], () => chooseSites(null));
listen("click", ["none"], () => chooseSites(new Set()));
listen("input", ["when"], () => moveTime(0));
pressed("by", (by) => moveTime(Number(by)));
if (data.live) follow();
if (data.live) ask();
else loadAll().then(follow);
