// The card of the agents that move CPU between a workload's running pods.

import { card, cores, h, table, when } from "./dom.js";

// agents of a workload: what they may use, what they do, and who decides.
export function agents(p, ask, path) {
  const s = p.state ?? {};
  const pods = s.pods ?? [];
  const held = p.hold || s.waits;
  const set = (question, change) => ask.act(question, `workloads/${path}/agents`, change);
  const decides = !p.model ? "the rule decides" : s.trusted === false ? `the model ${p.model} decides once it was better than the rule here` : `the model ${p.model} decides`;
  return card("Agents of running pods",
    h("div", { class: "big" }, p.stopped ? "stopped" : held ? "hold" : "running"),
    held ? h("p", { class: "soft small" }, held) : null,
    s.error ? h("p", { class: "warn" }, s.error) : null,
    h("p", { class: "soft small" }, `${cores(pods.reduce((sum, a) => sum + a.next, 0))} of ${cores(p.budget)} cores are given out, ${cores(p.least)} to ${cores(p.most)} a pod. `,
      p.memory ? `Of memory ${mib(pods.reduce((sum, a) => sum + (a.memory?.next ?? 0), 0))} of ${mib(p.memory.budget)}. ` : "",
      `Every ${p.interval / 1e9} s ${decides}`, s.time && !s.time.startsWith("0001") ? [", last at ", when(s.time)] : null, "."),
    s.trial ? h("p", { class: "soft small" }, "Trial of the model: " + s.trial) : null,
    pods.length ? table("Agents", [
      ["pod", (a) => a.pod], ["limit", (a) => cores(a.limit) + (a.limit === a.next ? "" : " → " + cores(a.next)), "n"],
      ["uses", (a) => cores(a.usage), "n"], ["priority", (a) => Math.round(100 * a.priority) + " %", "n"], ["bound by", (a) => a.binding, "", "wide"],
      ...(p.memory ? [["memory", memory, "", "wide"], ["uses of it", (a) => mib(a.memory?.used), "n"]] : []),
    ], pods) : null,
    (s.refused ?? []).map((r) => h("p", { class: "soft small" }, "takes no part: " + r)),
    ask.overview().actions ? h("div", { class: "row" },
      h("button", { onclick: () => set(p.stopped ? "Start the agents?" : "Stop the agents? Limits stay as they are.", { run: Boolean(p.stopped) }) }, p.stopped ? "Start" : "Stop")) : null,
    ask.overview().actions ? h("details", {}, h("summary", {}, "Budget, algorithm and priorities"), settings(p, s, pods, set)) : null);
}

const mib = (bytes) => (bytes == null ? "" : Math.round(bytes / 2 ** 20) + " MiB");

// memory limit of a pod, or why it stays.
function memory({ memory: m }) {
  if (!m || m.stays) return m?.stays ?? "";
  return mib(m.limit) + (m.limit === m.next ? "" : " → " + mib(m.next));
}

// settings is a form; only what was changed is sent.
function settings(p, s, pods, set) {
  const cpu = h("input", { type: "text", value: p.milliCPU ? p.milliCPU + "m" : "", placeholder: "as planned", size: 10 });
  const names = ["", ...new Set([...(s.models ?? []), ...(p.model ? [p.model] : [])])];
  const model = h("select", {}, names.map((m) => h("option", { value: m, selected: m === (p.model ?? "") }, m || "the rule")));
  const weights = pods.map((a) => [a.pod, h("input", { type: "number", min: 1, max: 100, value: Math.round(100 * a.priority) })]);
  const send = (event) => {
    event.preventDefault();
    const change = {};
    if (cpu.value !== cpu.defaultValue) change.cpu = cpu.value.trim();
    if (model.value !== (p.model ?? "")) change.model = model.value;
    if (weights.some(([, input]) => input.value !== input.defaultValue)) {
      // Pods that are not there now keep theirs.
      const rest = Object.entries(p.priorities ?? {}).filter(([pod]) => !weights.some(([name]) => name === pod)).map(([pod, v]) => ({ pod, percent: Math.round(100 * v) }));
      change.priorities = [...weights.map(([pod, input]) => ({ pod, percent: Number(input.value) })), ...rest];
    }
    if (Object.keys(change).length) set("Change what the agents may do?", change);
  };
  return h("form", { class: "stack", onsubmit: send },
    h("label", {}, "budget ", cpu), h("label", {}, "decided by ", model),
    weights.map(([pod, input]) => h("label", {}, `priority of ${pod}, % `, input)),
    h("button", { type: "submit" }, "Change"));
}
