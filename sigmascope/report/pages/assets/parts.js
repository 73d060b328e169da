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
