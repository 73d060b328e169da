// The page of a run: what its controls do, and how it follows what is new.

const SOON = 1000; // milliseconds between questions
const LATER = 4000; // where nobody looks, or the server does not answer
const held = new Map(); // pieces of the page as the server last wrote them

function drawOverSteps() {
  const { low, high } = steps();
  byId("alarmed").style.cssText = `--low: ${low}; --high: ${high}`;
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
  const alone = state.chosen?.size === 1 && state.chosen.has(site);
  chooseSites(alone ? null : new Set([site]));
  const found = [...there("spectra").values()].find((one) => one.site === site);
  if (found) useMatrix(found.key, step);
}

// The quantity that shows an alarm, at its layer.
pressed("alarm", async (words) => {
  const [key, site] = JSON.parse(words);
  if (there("panels").has(key)) await showQuantity(key);
  if (sitesHere().includes(site)) chooseSites(new Set([site]));
  byId("curves").scrollIntoView();
});

async function loadCurves() {
  const { single, means } = lossKeys();
  const keys = new Set([single, means, state.key]);
  await Promise.all(tracks.flatMap((track) => [...keys].map((key) => track.load(key))));
}

// Draw what there is, once it is here; the runs say what is looked at first.
async function showAll() {
  const first = tracks.map((track) => track.state.first).find((key) => key);
  if (first && !there("panels").has(state.key)) useQuantity(first);
  byId("quantity").value = state.key;
  scrub.key = there("spectra").has(scrub.key) ? scrub.key : byId("matrix").value || null;
  await loadCurves();
  fillBoxes();
  if (scrub.key !== null) await Promise.all(tracks.map((track) => track.scrub(scrub.key)));
  drawOverSteps();
  drawSigma();
}

// Pieces of HTML that the server wrote as it wrote the page: text in them is escaped, and what
// would act does not, by the page's own policy.
function takePieces(pieces) {
  const open = byId("past")?.open;
  for (const [id, text] of Object.entries(pieces)) {
    if (held.get(id) === text) continue;
    held.set(id, text);
    const { body } = new DOMParser().parseFromString(text, "text/html");
    byId(id).replaceChildren(...body.childNodes);
  }
  if (open !== undefined && byId("past")) byId("past").open = open;
}

async function ask() {
  let later = document.hidden;
  try {
    const seen = tracks.map((track, i) => `seen${i}=${track.state.version}`).join("&");
    const { runs, pieces } = await get(`/state?${seen}`);
    takePieces(pieces);
    if (tracks.map((track, i) => track.heed(runs[i])).some(Boolean)) await showAll();
  } catch (error) {
    if (!(error instanceof Unheard)) throw error;
    takePieces({ status: "The server does not answer any more; what is here stays." });
    later = true;
  }
  ready();
  setTimeout(ask, later ? LATER : SOON);
}

listen("change", ["quantity"], ({ target }) => showQuantity(target.value));
listen("change", ["log", "marks"], ({ target }) => {
  state[target.id] = target.checked;
  drawCurves();
  drawMaps();
});
listen("click", ["whole"], () => lookAt(null));
listen("input", ["filter"], fillBoxes);
listen("click", ["every"], () => chooseSites(null));
listen("click", ["none"], () => chooseSites(new Set()));
listen("change", ["matrix"], ({ target }) => useMatrix(target.value));
listen("input", ["when"], () => moveTime(0));
listen("click", ["earlier"], () => moveTime(-1));
listen("click", ["later"], () => moveTime(1));
follow(() => {
  drawOverSteps();
  drawSigma();
});
if (data.live) ask();
else showAll().then(ready);
