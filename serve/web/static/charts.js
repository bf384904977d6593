// Charts of a workload and of the cluster, by uPlot.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Set();
dark.addEventListener("change", () => drawn.forEach((again) => again()));

// forget drops the charts of a view that is left.
export function forget() {
  for (const again of drawn) again.stop();
  drawn.clear();
}

// merge puts series with times of their own on one axis: [[times, values], …].
function merge(lines) {
  const all = [...new Set(lines.flatMap(([times]) => times))].sort((a, b) => a - b);
  const index = new Map(all.map((t, i) => [t, i]));
  return [all, ...lines.map(([times, values]) => {
    const out = new Array(all.length).fill(null);
    times.forEach((t, i) => { out[index.get(t)] = values[i] ?? null; });
    return out;
  })];
}

// chart draws lines {label, times, values, colour, dash, step, width, unit} and bands
// [upper, lower] of their indices into box, and again when its width changes.
export function chart(box, lines, { bands = [], unit = "", now } = {}) {
  let plot;
  const data = merge(lines.map((l) => [l.times, l.values]));
  const draw = () => {
    plot?.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    plot = new uPlot({
      width: Math.max(box.clientWidth, 200), height: 230,
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) * 1.05 || 1] } },
      axes: [axis, { ...axis, size: 56, label: unit, labelSize: 18, labelGap: 0 }],
      series: [{ label: "time" }, ...lines.map((l) => ({
        label: l.label, stroke: colour(l.colour), width: l.width ?? 1.5, dash: l.dash, spanGaps: true, points: { show: false },
        paths: l.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        value: (_, v) => (v === null || v === undefined ? "–" : l.step ? String(v) : v.toFixed(2)),
      }))],
      bands: bands.map((b) => ({ series: [b[0] + 1, b[1] + 1], fill: colour("--band") })),
      hooks: now ? { draw: [(u) => {
        const x = u.valToPos(now, "x", true);
        if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
        u.ctx.save();
        u.ctx.strokeStyle = colour("--soft");
        u.ctx.setLineDash([3, 3]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        u.ctx.restore();
      }] } : {},
    }, data, box);
  };
  const watch = new ResizeObserver(() => {
    if (plot && Math.abs(plot.width - box.clientWidth) > 2) plot.setSize({ width: Math.max(box.clientWidth, 200), height: 230 });
    else if (!plot && box.clientWidth > 0) draw();
  });
  watch.observe(box);
  draw.stop = () => { watch.disconnect(); plot?.destroy(); };
  drawn.add(draw);
}
