// Users of each pod of a service, at rates that are given by second: PLAN is
// [{"url", "stages": [{"rate", "seconds"}, …]}, …], with rates in requests a second. Each
// request costs CPU_SECONDS of its pod; one that takes longer than TIMEOUT has failed.
import http from "k6/http";

const plan = JSON.parse(__ENV.PLAN);

export const options = {
  scenarios: Object.fromEntries(
    plan.map((pod, i) => [
      `pod${i}`,
      {
        executor: "ramping-arrival-rate",
        exec: "ask",
        env: { TARGET: pod.url },
        startRate: pod.stages[0].rate,
        preAllocatedVUs: 60,
        maxVUs: 150,
        gracefulStop: "3s",
        // A rate begins at once and stays.
        stages: pod.stages.flatMap((s) => [
          { target: s.rate, duration: "0s" },
          { target: s.rate, duration: `${s.seconds}s` },
        ]),
      },
    ]),
  ),
  summaryTrendStats: ["avg", "med", "p(95)", "p(99)", "max"],
};

export function ask() {
  http.get(__ENV.TARGET, { headers: { "X-Cpu-Seconds": __ENV.CPU_SECONDS }, timeout: __ENV.TIMEOUT });
}
