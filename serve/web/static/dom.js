// Elements and figures as text. Data only ever become text nodes: nothing that a cluster
// says is read as HTML.

export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(e.style, value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

export const money = (v) => (v === null || v === undefined ? "–" : "$" + v.toFixed(v < 10 ? 3 : v < 1000 ? 2 : 0));
export const cores = (milli) => (milli === null || milli === undefined || milli < 0 ? "–" : (milli / 1000).toFixed(milli < 10000 ? 2 : 1));
export const percent = (v) => (100 * v).toFixed(v > 0.995 && v < 1 ? 2 : 0) + " %";
export const gib = (bytes) => (bytes / 2 ** 30).toFixed(1) + " GiB";

export function clock(time, withDate) {
  const t = new Date(time);
  if (Number.isNaN(t.getTime())) return "–";
  const far = withDate || Math.abs(Date.now() - t) > 20 * 3600e3;
  return t.toLocaleString(undefined, far ? { dateStyle: "medium", timeStyle: "medium" } : { timeStyle: "medium" });
}

// zone of clock's times. Commands and records have UTC, which the pointer shows.
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
const utc = (time) => (Number.isNaN(Date.parse(time)) ? "" : new Date(time).toISOString());
export const when = (time, withDate) => h("time", { datetime: time, title: utc(time) }, clock(time, withDate));
export const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
export const arrow = (from, to) => (from === to ? String(to) : `${from} → ${to}`);
export const card = (title, ...rest) => h("section", { class: "card" }, title && h("h2", {}, title), ...rest);
export const workloadLink = (name) => h("a", { href: "#/workload/" + name }, name);

// table of columns [heading, cell, "n" for figures, "wide" for what a phone leaves out].
export function table(caption, columns, rows) {
  const kind = (c) => [c[2] === "n" ? "n" : "", c[3] ?? ""].join(" ").trim() || null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { class: kind(c), scope: "col" }, c[0])))),
      h("tbody", {}, rows.map((r) => h("tr", {}, columns.map((c) => h("td", { class: kind(c) }, c[1](r) ?? "")))))));
}
