// Pieces of a page that more than one page has.

function tile(title, value, tone, says) {
  const named = element("dt", {}, title, says ? element("span", { class: "meaning" }, says) : null);
  return element("div", { class: tone }, named, element("dd", {}, value));
}

const NAMED = 1000; // names under one reason

// Each reason with how many it holds for; the names, or their places in a list, when it is opened.
function reasons(id, rows, list, none) {
  const made = rows.map(([what, why, sites]) => {
    const head = [element("strong", {}, String(sites.length)), element("span", {}, shown(what)), element("span", { class: "statement" }, shown(why))];
    const names = element("ul", { class: "names", tabindex: "0" });
    const whole = element("details", {}, element("summary", {}, ...head), names);
    const fill = () => {
      const items = sites.slice(0, NAMED).map((site) => element("li", {}, named(typeof site === "number" ? list[site] : site)));
      if (sites.length > NAMED) items.push(element("li", { class: "hint" }, `and ${sites.length - NAMED} more, which the JSON form has`));
      names.replaceChildren(...items);
    };
    whole.addEventListener("toggle", fill, { once: true });
    return whole;
  });
  byId(id).replaceChildren(...(made.length > 0 ? made : [element("p", { class: "empty" }, none)]));
}

// Findings; each page has meant(quantity), what it is, and way(finding), a button to where it is seen.

// Views in which one quantity is read of several things, which its form tells apart.
const APART = ["setup", "training"];

function evidence(r) {
  const row = { value: number(r.value), low: number(r.low), high: number(r.high) };
  const says = meant(r.quantity);
  return element(
    "li",
    says ? { title: shown(says) } : {},
    named(r.site),
    ` ${shown(r.quantity)}${APART.includes(r.view) && r.form ? `, ${shown(r.form)}:` : ""} `,
    element("span", { class: "number" }, measured(row)),
    r.risk ? element("span", { class: "hint" }, ` (${chance(r.risk)})`) : null
  );
}

function heading(finding) {
  return element(
    "header",
    {},
    element("span", { class: "badge" }, finding.severity),
    element("h3", {}, shown(finding.name)),
    finding.site ? named(finding.site) : null
  );
}

function grounds(finding, remedies) {
  const facts = element("dl");
  const fact = (title, content) => facts.append(element("dt", {}, title), element("dd", {}, content));
  if (remedies && finding.remedies.length > 0) {
    fact("What to do", element("ol", {}, ...finding.remedies.map((r) => element("li", {}, ...prose(r)))));
  }
  if (finding.evidence.length > 0) fact("Evidence", element("ul", {}, ...finding.evidence.slice(0, 6).map(evidence)));
  fact("Source", shown(finding.source));
  return facts;
}

// What follows needs no remedy of its own: it goes with its cause.
function consequence(finding) {
  const says = element("p", { class: "says" }, ...prose(finding.says));
  return element("article", { class: `consequence ${finding.severity}` }, heading(finding), says, grounds(finding, false), way(finding));
}

function card({ cause, follow }) {
  const finding = data.findings[cause];
  const says = element("p", { class: "says" }, ...prose(finding.says));
  const facts = grounds(finding, true);
  if (finding.follows) {
    facts.append(element("dt", {}, "Follows from"), element("dd", {}, shown(finding.follows)));
  }
  const words = `${plural(follow.length, "finding")} ${follow.length === 1 ? "follows" : "follow"} from this`;
  const inside = follow.map((place) => consequence(data.findings[place]));
  const rest = follow.length > 0 ? element("details", {}, element("summary", {}, words), ...inside) : null;
  return element("article", { class: `card ${finding.severity}` }, heading(finding), says, facts, way(finding), rest);
}

function cardsOr(none) {
  return data.cards.length > 0 ? data.cards.map(card) : [element("p", { class: "empty" }, none)];
}

// How many causes there are of each severity.
function severityTiles() {
  return ["error", "warning", "note"].map((severity) => {
    const count = data.cards.filter(({ cause }) => data.findings[cause].severity === severity).length;
    const tone = severity === "note" ? "" : count ? severity : "good";
    return tile(count === 1 ? severity : `${severity}s`, String(count), tone);
  });
}
