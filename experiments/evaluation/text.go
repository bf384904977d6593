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
| [simulator.md](simulator.md), [calibration.md](calibration.md) | the accuracy of the simulation, and its model of a request |
| [whatif.md](../how-to/whatif.md) | a user's own history replayed from a real Prometheus |
| [k6.md](../how-to/k6.md) | the same loads under real k6 |
| [forecasting.md](../explanation/forecasting.md), [packing.md](../explanation/packing.md) | the forecasts and the packing behind it |

`

const marksText = `The project's own targets, judged by ` + "`experiments/evaluation`" + `. mash2-any may use every pool, like the
clairvoyant and Karpenter. mash2 under COST_SAVING and the HPA have one pool, of shared cores at half
speed. The clairvoyant is mash2's own planning with perfect forecasts. It is not the least possible cost:
that is the bound in [evaluation.md](evaluation.md).

mash2 is tuned on the scenarios and the development traces. Two held-out traces, autothrottle-noisy and
autothrottle-diurnal, have influenced two rules
([declines](../reference/policy.md#declines-that-no-forecast-knows), and the HPA's own rule for one replica
less), so they no longer count as held out. No parameter was chosen by the other seven.

Means over seeds are judged, whatever their intervals (± is half an interval). The sawtooth is
` + "`mash2 simulate --scenario sawtooth --warm-passes 2 --seeds 5`" + `, measured from the third tooth on. Every
scaler's pods take a second or two to start on their node, so the mark is about the time that pods are
without a node.

`

const keptText = "This section was measured with an earlier version than the rest of this page.\n\n"

const everybodyText = `Geometric means over %d traces, with 95 %% intervals over traces by Student's t in brackets: they say what to
expect of another trace. *Violating* is the mean share of minutes ± half its interval.

`

const rivalsText = `mash2 is run at several targets (` + "`TRACE_SWEEP`" + `). For each rival the table has two comparisons. At equal
service: the number of traces on which some target of mash2 violates the SLO in no more minutes, and the
cost of the cheapest of these relative to the rival, as a geometric mean over those traces with its 95 %
interval. At equal cost: the number of traces on which some target of mash2 costs no more, and the mean
share of violating minutes of the rival and of the best of these. Karpenter, which has all pools, is
compared with mash2-any, and the others with mash2 on their one pool. Seeds are those that both ran with.

`

const besideText = `Cost relative to the clairvoyant's, with 95 % intervals over seeds if there are several. Node cost is pod
cost times the node cost per pod. The first factor is replicas that a better forecast would not have asked
for. The second is nodes that are kept, or nodes of the more expensive pool. Where the clairvoyant itself
violates the SLO, nodes, boots or the bounds of replicas prevent every scaler from doing better.

`

const scenarioText = `Most scenarios last minutes and begin without history, so their first minutes weigh much: the clairvoyant
has its nodes before any scaler can know. [simulation.md](simulation.md) has the full table with intervals.

`

const realText = "`make experiments`" + ` runs the paper's two scenarios at real time (` + "`SPEED=10`" + ` for a quick
look) on etcd, kube-apiserver, controller-manager, scheduler and Prometheus, with GKE,
nodes and users simulated: mash2 under the paper's two policies, the stock HPA at 80 % on a
pool of equal bounds that is autoscaled by Cluster Autoscaler's rules, and the same HPA on
nodes of Karpenter 1.13.0 where it was run. Then ` + "`mash2 simulate --against`" + ` simulates the same
passes; where a picture shows only one line, both coincide. Karpenter's provider boots every node in 75 s, the
median of the others, and releases it at once; GKE's nodes take about 20 s to go, which are paid.

`

const paperWhy = `
Why they differ: the paper states the number of users, but neither the cost of a request nor the requests of
a pod. So only directions can be compared, not replicas. Its own two HPA figures are of different workloads:
above 80 %% of three pods' requests for 400 users are %.1f thousandths
of a pod's request for a user, 35 %% of one pod's for 700 users are %.1f, a factor of %.0f.
Here a request costs 3 ms of a core of n2 in both (` + "`heartbeat.yaml`" + ` says why), so the HPA
scales: its rule asks for more replicas whenever utilisation is beyond 80 %% by a tenth of it,
and an HPA that stays at three above 80 %%, as the paper's, is at the maximum that it was
given or is starved of metrics. What can be compared is the direction: that MAS-H² has more
replicas at lower CPU than the HPA at 80 %%.

`

const k6Text = `The scenarios are k6 scripts too ([k6.md](../how-to/k6.md)). ` + "`make k6-run`" + ` runs real k6 with Heartbeat, at a tenth of its time and users, against
a server on loopback that spends the CPU of each request. ` + "`make e2e-node`" + ` does it on a real node, with the
stock HPA and mash2 on real CPU.

`

const resultsTail = `## Replaying one's own history

[whatif.md](../how-to/whatif.md) shows ` + "`mash2 whatif`" + ` with a Prometheus that was filled from a real trace, its
output, and the known error of the simulation.
`
