// Alarms: bars on the axis of steps, and what each says and advises.

const BARS = 14; // drawn, the latest
const BAR = 30; // pixels
const LISTED = 30; // cards; more are counted

function meant(quantity) {
  return meaningOf(quantity).says;
}

function alarmsOf() {
  return tracks.flatMap((track) => track.state.alarms.map((alarm) => ({ ...alarm, track })));
}

function lasted({ begin, end }) {
  return end === null ? `since step ${compact(begin)}` : `step ${compact(begin)} to ${compact(end)}`;
}

function alarmCard(alarm) {
  const head = heading(alarm);
  head.append(element("span", { class: "when" }, `${lasted(alarm)}${tracks.length > 1 ? `, ${runName(alarm.track)}` : ""}`));
  const says = element("p", { class: "says" }, ...prose(alarm.says));
  const layer = sitesHere().includes(alarm.site) || alarm.evidence.length > 0;
  const see = layer ? element("button", { type: "button", class: "button", onclick: () => seeAlarm(alarm) }, "See it in the curves") : null;
  return element("article", { class: `card ${alarm.severity}${alarm.end === null ? "" : " over"}` }, head, says, grounds(alarm, true), see);
}

// The quantity that shows an alarm, at its layer.
async function seeAlarm(alarm) {
  const [first] = alarm.evidence;
  const found = first && [...panelsThere()].find(([, p]) => p.quantity === first.quantity && p.form === first.form && p.view === first.view);
  if (found) await showQuantity(found[0]);
  if (sitesHere().includes(alarm.site)) chooseSites(new Set([alarm.site]));
  byId("curves").scrollIntoView();
}

function fillAlarms() {
  const all = alarmsOf().sort((a, b) => b.begin - a.begin);
  const [now, over] = [all.filter(({ end }) => end === null), all.filter(({ end }) => end !== null)];
  const known = tracks.some(({ state }) => state.step !== null);
  byId("quiet").hidden = now.length > 0 || (all.length > 0 && over.length > 0);
  byId("quiet").textContent = known ? "No alarm was raised." : "Nothing was read yet.";
  byId("timeline-figure").hidden = all.length === 0;
  const cards = now.slice(0, LISTED).map(alarmCard);
  if (now.length > LISTED) cards.push(element("p", { class: "hint" }, `and ${now.length - LISTED} more in force`));
  if (over.length > 0) cards.push(pastAlarms(over, now.length));
  byId("cards").replaceChildren(...cards);
}

function pastAlarms(over, inForce) {
  const words = `${plural(over.length, "alarm")} ended`;
  const rest = over.length > LISTED ? [element("p", { class: "hint" }, `and ${over.length - LISTED} before`)] : [];
  const inside = element("div", { class: "cards" }, ...over.slice(0, LISTED).map(alarmCard), ...rest);
  const whole = element("details", { class: "past", id: "past" }, element("summary", {}, words), inside);
  const before = document.getElementById("past");
  whole.open = before ? before.open : inForce === 0;
  return whole;
}

function drawTimeline() {
  const all = alarmsOf().sort((a, b) => a.begin - b.begin);
  if (all.length === 0) return;
  const rows = rowsOf(all);
  const canvas = byId("timeline");
  const height = rows.length * BAR + 34;
  canvas.style.height = `${height}px`;
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `12px ${ink("--sans")}`;
  const x = state.range || wholeSteps();
  const box = { left: 12, right: width - 12, top: 2, bottom: height - 34 };
  const px = along(x, box.left, box.right);
  context.textBaseline = "top";
  for (const t of ticks(x, Math.max(2, Math.floor((box.right - box.left) / 52)))) {
    grid(context, [px(t), box.top, px(t), box.bottom], compact(t, 3), px(t), "center", box.bottom + 5);
  }
  context.fillText("step", (box.left + box.right) / 2, height - 14);
  rows.forEach((row, i) => drawRow(context, { row, px, box, y: box.top + i * BAR }));
  canvas.setAttribute("aria-label", `Alarms over steps: ${all.slice(-BARS).map((a) => `${a.name} at ${shown(a.site)}, ${lasted(a)}`).join("; ")}`);
}

// Alarms of one name at one place share a row; the latest rows are drawn.
function rowsOf(all) {
  const found = new Map();
  for (const alarm of all) {
    const key = JSON.stringify([alarm.name, alarm.site, alarm.track.index]);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(alarm);
  }
  return [...found.values()].slice(-BARS);
}

function drawRow(context, { row, px, box, y }) {
  const inside = (v) => Math.min(Math.max(v, box.left), box.right);
  for (const alarm of row) {
    const [from, to] = [inside(px(alarm.begin)), inside(px(alarm.end ?? lastStep()))];
    Object.assign(context, { fillStyle: alarmTone(alarm), globalAlpha: alarm.end === null ? 1 : 0.55 });
    context.beginPath();
    context.roundRect(from, y + 17, Math.max(to - from, 3), 8, 3);
    context.fill();
  }
  context.globalAlpha = 1;
  const [first] = row;
  const room = Math.max(12, Math.floor((box.right - box.left) / 7.2));
  const run = tracks.length > 1 ? `, ${runName(first.track)}` : "";
  const words = shortened(`${first.name} · ${first.site}${run}`, room);
  const wide = context.measureText(words).width;
  Object.assign(context, { fillStyle: ink("--ink"), textAlign: "left", textBaseline: "top" });
  context.fillText(words, Math.max(box.left, Math.min(inside(px(first.begin)), box.right - wide)), y + 2);
}
