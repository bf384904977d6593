// Which view is shown, when it is drawn again, and who looks.

import { Refused, get, hasToken, listen, post, setToken } from "./api.js";
import { forget } from "./charts.js";
import { card, clock, h, zone } from "./dom.js";
import * as views from "./views.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
const banner = document.getElementById("banner");
const login = document.getElementById("login");

let overview = null;
let shown = ""; // the route on the page
let line = null; // whether cycles are heard of, and why not
let late = false; // the newest cycle is older than it should be
let heard = { cycle: 0, at: 0 }; // a cycle newer than the overview has, while the view waits
let asking = null; // what aborts the requests of a view that is left

const routes = [
  [/^\/?$/, views.overview], [/^\/workloads$/, views.workloads], [/^\/workload\/([^/]+)\/([^/]+)$/, views.workload],
  [/^\/nodes$/, views.nodes], [/^\/timeline$/, views.timeline],
];

function route() {
  const path = location.hash.replace(/^#/, "") || "/";
  for (const [pattern, view] of routes) {
    const found = path.match(pattern);
    try {
      if (found) return { path, view, args: found.slice(1).map(decodeURIComponent) };
    } catch {
      break; // no name is written like that
    }
  }
  return { path, view: async () => [h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Overview"))], args: [] };
}

// show draws the view of the address. With live it is the same view with newer data:
// then what the reader opened, typed or scrolled to stays.
async function show(live) {
  const { path, view, args } = route();
  if (live && view.still?.()) {
    warn();
    status.textContent = "live; this view waits while you read";
    return;
  }
  asking?.abort();
  const mine = (asking = new AbortController());
  const ask = { get: (p) => get(p, mine.signal), act, overview: () => overview, again: () => show(true) };
  try {
    overview = await ask.get("overview");
    frame();
    const content = await view(ask, ...args);
    if (mine !== asking || content === null) return;
    const same = shown === path;
    const focus = same ? focused() : null;
    const scroll = [scrollY, document.getElementById("rows")?.scrollTop ?? 0];
    forget();
    main.replaceChildren(...content);
    shown = path;
    for (const draw of content.flatMap((e) => [e, ...e.querySelectorAll("*")])) draw.drawn?.();
    if (same) {
      scrollTo(0, scroll[0]);
      const rows = document.getElementById("rows");
      if (rows) rows.scrollTop = scroll[1];
      focus?.();
    } else {
      scrollTo(0, 0);
      if (live !== undefined) main.focus({ preventScroll: true });
    }
    document.title = (main.querySelector("h1")?.textContent ?? "mash2") + " · mash2";
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Refused && error.status === 401) return who(hasToken() ? error.message : "");
    shown = "";
    main.replaceChildren(h("h1", {}, "Nothing to show"), card(null, h("p", { role: "alert" }, error.message),
      h("p", {}, h("button", { onclick: () => show() }, "Try again"))));
  }
}

// focused remembers which element of the view has the focus: what it returns gives the
// focus to its like in the view as it is drawn anew.
function focused() {
  const e = document.activeElement;
  if (!main.contains(e) || e === main) return null;
  const like = (x) => x.tagName + (x.getAttribute("href") ?? "") + (x.getAttribute("aria-label") ?? "") + (x.tagName === "SUMMARY" ? "" : x.textContent);
  const all = () => [...main.querySelectorAll(e.tagName)].filter((x) => like(x) === like(e));
  const place = all().indexOf(e);
  return () => all()[place]?.focus({ preventScroll: true });
}

// frame is what is around every view.
function frame() {
  const o = overview;
  for (const a of document.querySelectorAll("nav a")) {
    const target = a.getAttribute("href").slice(1);
    const here = route().path;
    const on = target === "/" ? here === "/" : here.startsWith(target.replace(/s$/, ""));
    if (on) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  document.getElementById("nav-nodes").hidden = !o.everything;
  warn();
  document.getElementById("foot").replaceChildren(
    `mash2 ${o.program} · cycle ${o.cycle} at ${clock(o.time)} · times of ${zone()} · you look as ${o.viewer}`,
    o.everything ? "" : " · shown is what is in the namespaces that you may see");
}

// warn says above every view what is not as it should be.
function warn() {
  const o = overview;
  const told = [];
  if (o.paused) told.push("Paused: mash2 plans and writes nothing.");
  if (o.rolledBack) told.push(`The whole plan is taken back, as an SLO burnt: mash2 stays out until ${clock(o.rolledBack, true)}, or until a person ends it.`);
  if (o.error) told.push("The newest cycle changed nothing: " + o.error);
  if (late !== (late = overdue())) state();
  if (late) told.push(`The newest cycle is of ${clock(newest(), true)}.`);
  banner.hidden = told.length === 0;
  banner.textContent = told.join(" ");
}

const newest = () => Math.max(new Date(overview.newest), heard.at);

// overdue is true when no cycle has come for long. An operator that hangs sends none, and
// keeps the line.
function overdue() {
  return !overview.recorded && overview.period > 0 && (Date.now() - newest()) / 1000 > 20 * overview.period;
}

setInterval(() => { if (overview && late !== overdue()) warn(); }, 1000);

// state says whether what is shown is new.
function state() {
  if (!line) return;
  const { up, why } = line;
  status.textContent = !up ? "not connected: " + why : overview?.recorded ? "recorded" : late ? "connected, but no new cycle" : "live";
  status.className = up && !late ? "ok" : "warn";
}

// act does something after a question, and says what Kubernetes says.
async function act(question, path, body) {
  if (!confirm(question)) return;
  try {
    await post(path, body);
    status.textContent = "done; the next cycle shows it";
  } catch (error) {
    alert(error.message);
  }
  show(true);
}

function who(message) {
  document.getElementById("login-error").textContent = message;
  if (!login.open) login.showModal();
}

login.addEventListener("close", () => {
  const field = document.getElementById("token");
  if (!field.value) {
    shown = "";
    main.replaceChildren(h("h1", {}, "Nothing to show"), card(null, h("p", {}, "mash2 has to know who you are."),
      h("p", {}, h("button", { class: "primary", onclick: () => who("") }, "Sign in"))));
    return;
  }
  setToken(field.value);
  field.value = "";
  show();
  live();
});

let listening = false;
async function live() {
  if (listening) return;
  listening = true;
  await listen((cycle) => {
    if (cycle === overview?.newestCycle) return;
    if (cycle !== heard.cycle) heard = { cycle, at: Date.now() };
    show(true);
  }, (up, why) => {
    line = { up, why };
    state();
  });
  listening = false;
  // The token is accepted no more: the view asks for another one.
  await show(true);
  if (!login.open) setTimeout(live, 15000);
}

addEventListener("hashchange", () => show(false));
show().then(() => { if (!login.open) live(); });
