// The views: each returns what is put on the page.

import { agents } from "./agents.js";
import { chart } from "./charts.js";
import { arrow, card, clock, cores, counted, gib, h, money, percent, table, when, workloadLink } from "./dom.js";

const colours = 8;
const colourOf = (name) => {
  if (!name) return "bx";
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 9973;
  return "b" + (sum % colours);
};

// figure is a card with one number.
const figure = (title, value, ...below) => card(title, h("div", { class: "big" }, value), below.map((b) => h("p", { class: "soft small" }, b)));

// drawing is a box that is drawn once it is on the page and has a width.
function drawing(label, draw) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  box.drawn = () => draw(box);
  return box;
}

export async function overview(ask) {
  const o = ask.overview();
  const { changes } = await ask.get("changes?limit=12");
  const saved = o.money && o.money.hpaHourly > 0 ? 1 - o.money.hourly / o.money.hpaHourly : null;
  const spent = (s) => `the stock HPA about ${money(s.hpa)}; known for ${percent(s.known)} of it`;
  const beside = saved === null ? "" : Math.abs(saved) < 0.005 ? "" : saved > 0 ? `: ${percent(saved)} is saved` : `: ${percent(-saved)} more is paid`;
  return [
    h("h1", {}, "Overview"),
    h("div", { class: "cards" },
      card("Policy", h("div", { class: "big" }, o.policy.name), h("p", { class: "soft small" }, o.policy.reason),
        o.policy.objective ? h("p", { class: "soft small" }, `objective: ${(100 * o.policy.objective).toFixed(2)} % of the time within what replicas can use`) : null,
        o.policy.next ? h("p", { class: "small" }, `next: ${o.policy.next}, `, when(o.policy.nextAt, true)) : null,
        (o.policy.signals ?? []).map((s) => h("p", { class: "soft small" }, `signal ${s.name} is ${s.on ? "on" : "off"}: ${s.reason ?? ""}`)),
        (o.policy.strategyActions ?? []).map((a) => h("p", { class: a.notDone && a.rule !== "learn" ? "warn small" : "soft small" }, `strategy ${a.strategy.namespace}/${a.strategy.name}, rule ${a.rule}: ${a.notDone || a.reason}`)),
        (o.policy.strategies ?? []).filter((s) => s.learning).map((s) => h("p", { class: s.learning.failed ? "warn small" : "soft small" }, `strategy ${s.key.namespace}/${s.key.name} learns: ${[s.learning.reason, s.learning.last].filter(Boolean).join("; ")}`)),
        o.actions ? controls(ask, o) : null),
      o.money ? figure("Nodes, now", money(o.money.hourly) + "/h",
        `the stock HPA would pay about ${money(o.money.hpaHourly)}/h` + beside,
        "an estimate: target 80 %, default behavior, nodes as full as these") : null,
      o.money ? card("Spent", h("p", {}, "today ", h("strong", {}, money(o.money.day.spent))), h("p", { class: "soft small" }, spent(o.money.day)),
        h("p", {}, "this month ", h("strong", {}, money(o.money.month.spent))), h("p", { class: "soft small" }, spent(o.money.month))) : null,
      figure("Replicas", arrow(o.replicas, o.planned), counted(o.workloads, "workload") + (o.held ? `, ${o.held} held` : "") + (o.shadow ? `, ${o.shadow} in Shadow` : "")),
    ),
    o.total ? card("Replicas of all workloads", drawing("Replicas of all workloads: there are, planned, and with the stock HPA", (box) => chart(box, [
      { label: "there are", times: o.total.times, values: o.total.replicas, colour: "--c0", step: true, width: 2 },
      { label: "planned", times: o.total.times, values: o.total.planned, colour: "--c1", step: true },
      { label: "stock HPA (estimate)", times: o.total.times, values: o.total.hpa, colour: "--c2", step: true, dash: [5, 4] },
    ]))) : null,
    o.pools?.length ? card("Node pools", table("Node pools", [
      ["pool", (p) => p.name], ["machine", (p) => p.machineType, "", "wide"], ["nodes", (p) => arrow(p.target, p.planned), "n"],
      ["Ready", (p) => p.ready, "n"], ["USD/h", (p) => money(p.hourlyCost), "n"],
      ["why", (p) => [p.hold && !p.reason.includes(p.hold) ? h("span", { class: "warn" }, p.hold + " ") : null, p.managed ? p.reason : "not mash2's"].filter(Boolean), "", "wide"],
    ], o.pools)) : null,
    o.refusal ? card("A move that waits", h("p", {}, `Workloads stay on ${o.refusal.stay} instead of ${o.refusal.pool}: ${o.refusal.reason}: ${o.refusal.message}`)) : null,
    o.unplaced?.length ? card("Pods without a place", h("ul", { class: "plain" }, o.unplaced.map((u) => h("li", {}, u)))) : null,
    card("Findings", findings(o.findings)),
    card("What changed", changeList(changes.slice(0, 12), ask), h("p", {}, h("a", { href: "#/timeline" }, "the whole timeline"))),
    o.steps?.length ? h("p", { class: "soft small" }, "the newest cycle took " + o.steps.map((s) => `${s.step} ${s.milliseconds.toFixed(0)} ms`).join(", ")) : null,
  ].filter(Boolean);
}

function controls(ask, o) {
  const choice = h("select", { "aria-label": "policy" }, h("option", { value: "" }, "by schedule"),
    o.policies.map((p) => h("option", { value: p, selected: o.policy.source === "manual" && p === o.policy.name }, p)));
  choice.addEventListener("change", () => ask.act(choice.value ? `Set the policy to ${choice.value}?` : "Leave the policy to the schedule?", "policy", { policy: choice.value }));
  return h("div", { class: "row" }, choice,
    o.rolledBack ? h("button", { onclick: () => ask.act("Let mash2 plan again after the rollback?", "rollback/end") }, "End the rollback") : null,
    o.paused ? h("button", { onclick: () => ask.act("Let mash2 write again?", "resume") }, "Resume")
      : h("button", { onclick: () => ask.act("Stop every write of mash2 from its next cycle on?", "pause") }, "Pause"));
}

function findings(all) {
  if (!all.length) return h("p", { class: "soft" }, "none");
  const first = [...all].sort((a, b) => (a.severity === "Warning" ? 0 : 1) - (b.severity === "Warning" ? 0 : 1));
  const item = (f) => h("li", {}, h("span", { class: f.severity === "Warning" ? "chip bad" : "chip" }, f.reason), " ", f.object ? h("strong", {}, f.object + ": ") : "", f.message);
  return [h("ul", { class: "plain" }, first.slice(0, 8).map(item)),
    first.length > 8 ? h("details", {}, h("summary", {}, `${first.length - 8} more`), h("ul", { class: "plain" }, first.slice(8, 200).map(item))) : null];
}

// changeList is a timeline; each entry opens into why.
function changeList(changes, ask) {
  if (!changes.length) return h("p", { class: "soft" }, "nothing yet");
  return h("ul", { class: "plain" }, changes.map((k) => {
    const [kind, name] = k.object.split(/ (.*)/s);
    const sizes = k.from === undefined ? "" : ` ${arrow(k.from, k.to)}`;
    const box = h("div", {}, "…");
    const entry = h("details", {}, h("summary", {}, when(k.time), " ", h("span", { class: k.warning ? "chip bad" : "chip" }, k.kind), " ",
      h("strong", {}, (name ?? kind) + sizes), " ", h("span", { class: "soft" }, k.text)), box);
    entry.addEventListener("toggle", async () => {
      if (!entry.open || box.dataset.asked) return;
      box.dataset.asked = "1";
      try {
        const query = kind === "workload" ? "&workload=" + encodeURIComponent(name) : kind === "pool" ? "&pool=" + encodeURIComponent(name) : "";
        box.replaceChildren(...explanation(await ask.get("explain?at=" + encodeURIComponent(k.time) + query)));
      } catch (error) {
        box.replaceChildren(h("p", { class: "soft" }, error.message));
      }
    });
    return h("li", {}, entry);
  }));
}

// explanation is what mash2 explain says.
function explanation(x) {
  const d = x.decided;
  const plans = x.candidates?.length ? table("Plans that were considered, all workloads together", [
    ["pool", (c) => c.pool, "", "wide"], ["replicas", (c) => c.replicas, "n"], ["nodes", (c) => c.nodes, "n"], ["USD/h", (c) => money(c.hourlyCost), "n"],
    ["utility", (c) => c.utility.total.toFixed(3), "n"], ["why not", (c) => c.why],
  ], [{ ...x.chosen, why: "chosen" }, ...x.candidates]) : null;
  return [
    h("p", { class: "soft small" }, `cycle ${x.cycle}, ${clock(x.time, true)}, policy ${x.policy.name}` + (x.brief ? "; kept without curves" : "")),
    x.error ? h("p", { class: "warn" }, "Nothing was changed: " + x.error) : null,
    d ? h("p", {}, workloadLink(x.workload), `: ${arrow(d.current, d.replicas)} replicas, by `, h("strong", {}, d.binding), ". ", d.reason) : null,
    d && d.demand >= 0 ? h("p", { class: "soft" }, `demand ${cores(d.demand)} cores, planned peak ${cores(d.peakDemand)}; ${d.request} millicores a replica; at least ${d.floor} by the reactive rule (${d.floorSource ?? "none"}); nodes for ${d.nodeReplicas}`) : null,
    x.trust ? h("p", { class: "soft" }, `forecast by ${x.trust.model}, trust ${x.trust.trust}` + (x.forecast ? "" : "; not used")) : null,
    x.pool ? h("p", {}, `pool ${x.pool.pool}: ${arrow(x.pool.current, x.pool.nodes)} nodes. ${x.pool.reason}`) : null,
    x.actions?.length ? h("ul", { class: "plain small" }, x.actions.map((a) => h("li", {}, h("span", { class: a.outcome === "done" ? "chip" : "chip bad" }, a.outcome.split(":")[0]), " ", a.action, a.outcome.includes(":") ? " – " + a.outcome : ""))) : null,
    plans,
    x.findings?.length ? findings(x.findings) : null,
    x.lost?.map((l) => h("p", { class: "warn" }, "Lost: " + l)),
  ].flat().filter(Boolean);
}

// whatIf asks what would have been planned otherwise.
function whatIf(ask, name, at) {
  const fields = ["quantile", "objective", "targetUtilization", "minReplicas", "maxHourlyCost", "workload.minReplicas", "workload.maxReplicas"];
  const what = h("select", { "aria-label": "what to change" }, fields.map((f) => h("option", { value: "with=" + f }, f)),
    h("option", { value: "without=budget" }, "without the budget"), ask.overview().policies.map((p) => h("option", { value: "policy=" + p }, "under " + p)));
  const value = h("input", { "aria-label": "value", size: 8, value: "0.95" });
  const box = h("div", { role: "status" });
  what.addEventListener("change", () => { value.hidden = !what.value.startsWith("with="); });
  const form = h("form", { class: "row" }, "What if", what, value, h("button", {}, "Ask"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    box.replaceChildren("deciding that cycle again …");
    const change = what.value.startsWith("with=") ? "with=" + encodeURIComponent(what.value.slice(5) + "=" + value.value) : what.value;
    try {
      const o = await ask.get(`otherwise?${change}&workload=${encodeURIComponent(name)}&at=${encodeURIComponent(at)}`);
      box.replaceChildren(h("p", {}, h("strong", {}, o.summary)), ...o.workloads.slice(0, 20).map((d) =>
        h("p", { class: "soft" }, `${d.workload}: ${d.otherwise.replicas}, by ${d.otherwise.binding}: ${d.otherwise.reason}`)),
      h("p", { class: "soft small" }, `cycle ${o.cycle}, decided again; what would have followed is not told` + (o.reproduced ? "" : ". Recorded by another version: both sides are this one's")));
    } catch (error) {
      box.replaceChildren(h("p", { class: "warn" }, error.message));
    }
  });
  const details = h("details", {}, h("summary", {}, "What if it had been otherwise?"), h("div", {}, form, box));
  return details;
}

// state of the list of workloads, kept from one drawing to the next.
const list = { find: "", by: "key", down: false };
const rowHeight = 34;

export async function workloads(ask) {
  const { workloads: all } = await ask.get("workloads");
  for (const w of all) w.name = w.key.namespace + "/" + w.key.name;
  const columns = [
    ["name", "key", (w) => workloadLink(w.name), (w) => w.name],
    ["mode", "mode", (w) => [w.mode ?? "", w.canary ? h("span", { class: w.canary === "Stopped" ? "chip bad" : "chip" }, w.canary) : null, w.held || w.hold ? h("span", { class: "chip bad", title: w.hold || w.reason }, "held") : null].filter(Boolean), (w) => w.mode ?? "", "wide"],
    ["replicas", "replicas", (w) => arrow(w.replicas, w.planned), (w) => w.planned, "n"],
    ["Ready", "ready", (w) => String(w.ready), (w) => w.ready, "n wide"],
    ["HPA, est.", "hpa", (w) => String(w.hpa || "–"), (w) => w.hpa, "n wide"],
    ["bound by", "binding", (w) => w.binding ?? "", (w) => w.binding ?? ""],
    ["cores", "demand", (w) => cores(w.demand), (w) => w.demand ?? -1, "n"],
    ["trust", "trust", (w) => w.trust ?? "–", (w) => w.trust ?? "", "wide"],
    ["USD/h", "hourly", (w) => (w.hourly ? money(w.hourly) : "–"), (w) => w.hourly, "n wide"],
  ];
  const body = h("tbody");
  const box = h("div", { id: "rows", tabindex: 0, role: "region", "aria-label": "Workloads" });
  let rows = [];
  // Only rows in sight are in the document: five thousand of them would be slow.
  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 10);
    const last = Math.min(rows.length, first + Math.ceil((box.clientHeight || 800) / rowHeight) + 20);
    const pad = (n) => h("tr", { class: "pad", "aria-hidden": "true" }, h("td", { colspan: columns.length, style: { height: n * rowHeight + "px" } }));
    body.replaceChildren(first > 0 ? pad(first) : "", ...rows.slice(first, last).map((w, i) =>
      h("tr", { "aria-rowindex": first + i + 2 }, columns.map((c) => h("td", { class: c[4] ?? null }, c[2](w))))), last < rows.length ? pad(rows.length - last) : "");
  };
  const count = h("span", { class: "soft", role: "status" });
  const sorted = () => {
    const text = list.find.toLowerCase();
    const value = columns.find((c) => c[1] === list.by)[3];
    rows = all.filter((w) => !text || w.name.toLowerCase().includes(text) || (w.binding ?? "").toLowerCase().includes(text) || (w.held && text === "held"));
    rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (list.down ? -1 : 1));
    count.textContent = rows.length === all.length ? counted(all.length, "workload") : `${rows.length} of ${all.length}`;
    for (const th of heads) {
      const on = th.dataset.by === list.by;
      th.setAttribute("aria-sort", on ? (list.down ? "descending" : "ascending") : "none");
    }
    draw();
  };
  const heads = columns.map((c) => h("th", { scope: "col", class: c[4] ?? null, "data-by": c[1], "aria-sort": "none" }, h("button", { onclick: () => {
    list.down = list.by === c[1] ? !list.down : c[4]?.startsWith("n") ?? false;
    list.by = c[1];
    sorted();
  } }, c[0])));
  const find = h("input", { type: "search", placeholder: "name, namespace, bound by, held", "aria-label": "Find workloads", value: list.find });
  find.addEventListener("input", () => { list.find = find.value; box.scrollTop = 0; sorted(); });
  box.append(h("table", { "aria-rowcount": all.length + 1 }, h("thead", {}, h("tr", {}, heads)), body));
  box.addEventListener("scroll", draw);
  sorted();
  box.drawn = draw;
  return [h("h1", {}, "Workloads"), h("p", { class: "row" }, find, count), box];
}
// While somebody types, the list waits.
workloads.still = () => document.activeElement?.type === "search";

export async function workload(ask, namespace, name) {
  const path = `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const w = await ask.get("workloads/" + path);
  // One that is off has no plan to explain.
  const x = w.mode === "Off" ? null : await ask.get("explain?workload=" + encodeURIComponent(`${namespace}/${name}`));
  const now = new Date(w.time) / 1000;
  const scale = (values) => values.map((v) => (v === null ? null : v / 1000));
  const demand = [
    { label: "demand", times: w.past.times, values: scale(w.past.demand), colour: "--c0", width: 2 },
    { label: "planned peak", times: w.past.times, values: scale(w.past.peak), colour: "--c2", dash: [5, 4] },
  ];
  const bands = [];
  if (w.forecast) {
    const f = w.forecast;
    // The mean of a skewed forecast may lie outside its quantiles; the median can't.
    const median = f.levels.indexOf(0.5);
    demand.push({ label: median < 0 ? "expected" : "median", times: f.times, values: scale(median < 0 ? f.mean : f.bands[median]), colour: "--c1" });
    const low = f.bands[0], high = f.bands.at(-1);
    demand.push({ label: percent(f.levels.at(-1)), times: f.times, values: scale(high), colour: "--c0", width: 0.5 });
    demand.push({ label: percent(f.levels[0]), times: f.times, values: scale(low), colour: "--c0", width: 0.5 });
    bands.push([3, 4]);
  }
  const path_ = { times: w.path.map((p) => p.at), values: w.path.map((p) => p.replicas) };
  const mode = (m) => h("button", { "aria-pressed": String(w.mode === m), onclick: () => ask.act(`Set ${namespace}/${name} to ${m}?`, `workloads/${path}/mode`, { mode: m }) }, m);
  return [
    h("h1", {}, `${namespace}/${name}`),
    h("div", { class: "cards" },
      figure("Replicas", arrow(w.replicas, w.planned), `${w.ready} Ready; from ${w.bounds[0]} to ${w.bounds[1]}`, `the stock HPA would have about ${w.hpa || "–"}`),
      card("Bound by", h("div", { class: "big" }, w.binding), h("p", { class: "soft small" }, w.reason), w.hold ? h("p", { class: "warn" }, w.hold) : null),
      figure("Demand", cores(w.demand) + " cores", w.skill ? `forecast by ${w.skill.model}, trust ${w.skill.trust}` : "nothing is forecast", w.hourly ? `${money(w.hourly)}/h of nodes` : "no price"),
      (w.plan.slos ?? []).map((s) => card(`SLO ${s.name}`, h("div", { class: "big" }, s.verdict), h("p", { class: "soft small" }, `${(100 * s.objective).toPrecision(5).replace(/\.?0+$/, "")} %: ${s.reason}`))),
      w.plan.canary ? trial(w.plan.canary, ask, path) : null,
      card("Mode", h("div", { class: "big" }, w.mode ?? "–"), ask.overview().actions ? h("div", { class: "row" }, ["Off", "Shadow", "Canary", "Full"].map(mode)) : null,
        (w.pools ?? []).map((p) => h("p", { class: "soft small" }, `${p.replicas} on ${p.pool}`))),
    ),
    w.plan.sizing ? sizes(w.plan.sizing) : null,
    w.plan.agents ? agents(w.plan.agents, ask, path) : null,
    card("Demand, cores", drawing("Demand of the past and its forecast, in cores", (box) => chart(box, demand, { bands, unit: "cores", now }))),
    card("Replicas", drawing("Replicas of the past and planned", (box) => chart(box, [
      { label: "there are", times: w.past.times, values: w.past.replicas, colour: "--c0", step: true, width: 2 },
      { label: "Ready", times: w.past.times, values: w.past.ready, colour: "--c6", step: true },
      { label: "planned", times: w.past.times, values: w.past.planned, colour: "--c1", step: true },
      { label: "at least (reactive)", times: w.past.times, values: w.past.floor, colour: "--c3", step: true, dash: [2, 3] },
      { label: "stock HPA (estimate)", times: w.past.times, values: w.past.hpa, colour: "--c2", step: true, dash: [5, 4] },
      { label: "path, before other bounds", times: path_.times, values: path_.values, colour: "--c5", step: true },
    ], { now }))),
    x && card("Why", explanation(x), ask.overview().otherwise ? whatIf(ask, `${namespace}/${name}`, w.time) : null),
    card("What changed", changeList(w.changes, ask)),
  ].filter(Boolean);
}

// sizes is the card of what containers should request, beside what their template does.
function sizes(p) {
  const amounts = (a) => [a?.milliCPU ? cores(a.milliCPU) + " cores" : "", a?.memory ? gib(a.memory) : ""].filter(Boolean).join(", ") || "–";
  return card("Sizes", h("div", { class: "big" }, p.mode), p.hold ? h("p", { class: "warn" }, p.hold) : null, h("p", { class: "soft small" }, p.reason),
    p.containers?.length ? table("Sizes of containers", [
      ["container", (c) => c.name], ["template", (c) => amounts(c.template)], ["chosen", (c) => amounts(c.requests)], ["why", (c) => c.reason, "", "wide"],
    ], p.containers) : null,
    h("p", { class: "small" }, p.saving < 0 ? `${money(-p.saving)}/h more than the template's ${money(p.cost)}/h` : `${money(p.saving)}/h less than the template's ${money(p.cost)}/h`));
}

// trial is the card of a trial in mode Canary: how far it is, the evidence, what it waits for.
function trial(t, ask, path) {
  const evidence = (x) => (x >= 100 || x < 0.01 ? x.toExponential(1) : x.toPrecision(2));
  const role = { Canary: t.acts ? "a canary: mash2 acts for it" : "a canary", Control: "a control", None: t.acts ? "mash2 acts for it" : "neither canary nor control" }[t.role];
  return card("Trial", h("div", { class: "big" }, t.phase),
    h("p", { class: "soft small" }, `It is ${role}${t.with ? ", with " + t.with : ""}.`),
    h("p", { class: t.phase === "Stopped" ? "warn" : "soft small" }, t.waits),
    t.phase === "Running" || t.phase === "Stopped" || t.phase === "Promoted" ? h("p", { class: "soft small" },
      `Evidence that canaries are worse: ${evidence(t.worse)}, that they are not: ${evidence(t.fine)}; ${evidence(t.needed)} is proof. Worse by ${t.excess.toFixed(2)} error budgets` +
      (t.cost ? `, requests for the same demand ${t.cost >= 1 ? "+" : ""}${(100 * (t.cost - 1)).toFixed(0)} %.` : ".")) : null,
    ask.overview().actions && t.phase !== "Waiting" ? h("button", { onclick: () => ask.act("Begin the trial of this namespace anew?", `workloads/${path}/canary/restart`) }, "Begin anew") : null);
}

export async function nodes(ask) {
  const p = await ask.get("nodes");
  const owners = new Map();
  for (const pool of p.pools) for (const n of pool.nodes) for (const s of n.shares) owners.set(s.workload ?? "", (owners.get(s.workload ?? "") ?? 0) + s.milliCPU);
  const largest = [...owners].filter(([name]) => name).sort((a, b) => b[1] - a[1]).slice(0, 12);
  const node = (n) => {
    const used = n.shares.reduce((sum, s) => sum + s.milliCPU, 0);
    const memory = n.shares.reduce((sum, s) => sum + s.memory, 0);
    const text = n.shares.map((s) => `${s.workload ?? "others"}: ${counted(s.pods, "pod")}, ${cores(s.milliCPU)} cores`).join("\n");
    return h("li", { class: n.cordoned ? "node cordoned" : "node", title: text },
      h("div", { class: "name" }, n.name),
      h("div", { class: "bar", role: "img", "aria-label": `${cores(used)} of ${cores(n.milliCPU)} cores requested` }, n.shares.map((s) => h("span", { class: colourOf(s.workload), style: { width: Math.min(100, (100 * s.milliCPU) / n.milliCPU) + "%" } }))),
      h("div", { class: "soft" }, `${cores(used)} of ${cores(n.milliCPU)} cores, ${gib(memory)} of ${gib(n.memory)}`),
      n.ready ? null : h("div", { class: "warn" }, "not Ready"),
      n.cordoned ? h("div", { class: "warn" }, "cordoned" + (n.for ? " for " + n.for : "")) : null);
  };
  return [
    h("h1", {}, "Nodes"),
    h("p", { class: "soft" }, "What pods request of each node's cores. A dashed frame is a node that is being left."),
    largest.length ? h("p", { class: "row small" }, largest.map(([name]) => h("span", {}, h("span", { class: "key " + colourOf(name) }), " ", workloadLink(name))),
      h("span", {}, h("span", { class: "key bx" }), " pods of nobody's workload")) : null,
    ...p.pools.map((pool) => card(`${pool.pool || "no pool"}: ${counted(pool.total, "node")}`, h("ul", { class: "nodes" }, pool.nodes.map(node)),
      pool.total > pool.nodes.length ? h("p", { class: "soft" }, `the first ${pool.nodes.length} are shown`) : null)),
    p.pending.length ? card("Pending", h("ul", { class: "plain" }, p.pending.map((s) => h("li", {}, `${s.workload ?? "others"}: ${counted(s.pods, "pod")}, ${cores(s.milliCPU)} cores`)))) : null,
  ].filter(Boolean);
}

const line = { find: "", pages: 1 };

export async function timeline(ask) {
  const all = [];
  let before = "";
  let more = true;
  for (let i = 0; i < line.pages && more; i++) {
    const { changes } = await ask.get("changes?limit=200" + (before && "&before=" + encodeURIComponent(before)));
    all.push(...changes);
    more = changes.length >= 200;
    before = changes.at(-1)?.time ?? "";
  }
  const box = h("div");
  const draw = () => {
    const text = line.find.toLowerCase();
    box.replaceChildren(changeList(all.filter((k) => !text || (k.object + " " + k.kind + " " + k.text).toLowerCase().includes(text)), ask));
  };
  const find = h("input", { type: "search", placeholder: "workload, pool, kind, words", "aria-label": "Find changes", value: line.find });
  find.addEventListener("input", () => { line.find = find.value; draw(); });
  draw();
  return [h("h1", {}, "Timeline"), h("p", { class: "row" }, find), card(null, box),
    more ? h("p", {}, h("button", { onclick: () => { line.pages++; ask.again(); } }, "Older")) : null].filter(Boolean);
}
// What is open stays open.
timeline.still = () => document.activeElement?.type === "search" || document.querySelector("main details[open]") !== null;
overview.still = workload.still = () => document.querySelector("main details[open]") !== null;
