package main

const resultsHead = `# Results

Made by ` + "`make results`" + ` from what ` + "`make experiments`" + ` (real control plane),
` + "`%s`" + ` (recorded load) and ` + "`make experiments-sim`" + ` (scenarios) have
measured; no figure on this page is written by hand. Recorded load was run by %s.
Each of the pages below has the rest, with the commands that make it:

| page | what it shows |
|---|---|
| [simulation.md](simulation.md) | every scaler in every scenario, with intervals over seeds |
| [evaluation.md](evaluation.md) | every scaler on every recorded trace |
| [simulator.md](simulator.md), [calibration.md](calibration.md) | what the simulation is worth, and its model of a request |
| [whatif.md](whatif.md) | a user's own history replayed, tried on a real Prometheus |
| [k6.md](k6.md) | the same loads under real k6 |
| [forecasting.md](forecasting.md), [packing.md](packing.md) | the forecasts and the packing behind it |

`

const marksText = `What the project asks of itself, judged by ` + "`experiments/evaluation`" + `. mash2-any may be on any
pool, as the clairvoyant and Karpenter; mash2 has one pool under COST_SAVING, as the HPA,
of shared cores at half speed. The clairvoyant is mash2's own planning with forecasts that
are right, not the least cost there can be: that is the bound in [evaluation.md](evaluation.md). The scenarios and the traces for development are what
it is tuned on. Two of those held out have shown faults: on autothrottle-noisy a ninth pod
stayed where an HPA goes to eight, on autothrottle-diurnal a second node stayed for ten
minutes although demand kept falling. Both were mended by rules that know nothing of these
traces (the HPA's own; [declines](policy.md#declines-that-no-forecast-knows)), tried with other
variants there too, and judged on development. These two are held out no more; nothing was
looked at for the other seven, and nothing set by what does best there. Means over seeds
are judged, however wide their intervals are (± is half of one). The
sawtooth:
` + "`mash2 simulate --scenario sawtooth --warm-passes 2 --seeds 5`" + `, of which the teeth from
the third on are measured. A pod that has its node still takes a second or two to start,
for everybody: what is judged is how long pods are without a node.

`

const keptText = "Measured by an earlier version than the rest of this page, and kept.\n\n"

const everybodyText = `Geometric means over %d traces, with their 95 %% interval by Student's t in brackets: the
interval is over traces, so that it says what to expect of another one. Violating is the
mean share of minutes ± half its interval.

`

const rivalsText = `For each rival: on how many traces one of mash2's targets (` + "`TRACE_SWEEP`" + `) violates the SLO in no
more minutes than it, and what the cheapest of these costs relative to it, a geometric
mean over those traces with its 95 % interval; and on how many one costs no more, and in
how many minutes the best of these violates, means over those traces. Karpenter, which has
all pools, is compared with mash2-any, the others with mash2 on their one pool. Seeds are
those that both were run with.

`

const besideText = `Factors on the clairvoyant's cost, with 95 % intervals over seeds where there are several. Node cost is
pod cost times what nodes cost per pod: the first is replicas that a better forecast
would not have asked for, the second nodes that are kept, or of the dearer pool. Where the
clairvoyant itself violates, nodes, boots or the bounds of replicas do not let anybody do
better.

`

const scenarioText = `The scenarios, which are minutes long but for a day and a week and begin cold, weigh
the first minutes: there the clairvoyant has its nodes before anybody can know. The full
table with intervals is in [simulation.md](simulation.md).

`

const realText = "`make experiments`" + ` runs the paper's two scenarios at real time (` + "`SPEED=10`" + ` for a quick
look) on etcd, kube-apiserver, controller-manager, scheduler and Prometheus, with GKE,
nodes and users simulated: mash2 under the paper's two policies, the stock HPA at 80 % on a
pool of equal bounds that is autoscaled by Cluster Autoscaler's rules, and the same HPA on
nodes of Karpenter 1.13.0 where it was run. Then ` + "`mash2 simulate --against`" + ` simulates the same
passes; where only one line is seen in a picture, both coincide. Karpenter's provider boots every node in 75 s, the median of the others, and lets
go of it at once, where GKE's take some 20 s, which are paid.

`

const paperWhy = `
Why they differ. The paper states users, but neither what a request costs nor what a pod
requests, so that replicas can't be compared, only directions. Its own two HPA figures are
of different workloads: above 80 %% of three pods' requests for 400 users are %.1f thousandths
of a pod's request for a user, 35 %% of one pod's for 700 users are %.1f, a factor of %.0f.
Here a request costs 3 ms of a core of n2 in both (` + "`heartbeat.yaml`" + ` says why), so the HPA
scales: its rule asks for more replicas whenever utilisation is beyond 80 %% by a tenth of it,
and an HPA that stays at three above 80 %%, as the paper's, is at the maximum that it was
given or is starved of metrics. What can be compared is the direction: that MAS-H² has more
replicas at lower CPU than the HPA at 80 %%.

`

const k6Text = `The scenarios are k6 scripts too ([k6.md](k6.md)). ` + "`make k6-run`" + `: real k6 with Heartbeat, a
tenth of its time and users, against a server on loopback that spends the CPU of each
request. On a real node, with the stock HPA and mash2 on real CPU: ` + "`make e2e-node`" + `.

`

const resultsTail = `## Replaying one's own history

` + "`mash2 whatif`" + ` on a Prometheus that was filled with a real trace, what it printed, and the
simulation's known error beside it: [whatif.md](whatif.md).
`
