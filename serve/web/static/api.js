// The server's API, and who asks. Addresses are relative: the page works below any path.

const key = "mash2-token";
let token = "";
try { token = sessionStorage.getItem(key) ?? ""; } catch { /* no storage: it is asked for again */ }

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setToken(value) {
  token = value.trim();
  try { sessionStorage.setItem(key, token); } catch { /* as above */ }
}

export const hasToken = () => token !== "";

const headers = () => (token ? { "X-Mash2-Token": token } : {});

async function answer(response) {
  const text = await response.text();
  let body;
  try { body = JSON.parse(text); } catch { body = { error: text.slice(0, 300) || response.statusText }; }
  if (!response.ok) throw new Refused(response.status, body.error ?? response.statusText);
  return body;
}

export async function get(path, signal) {
  return answer(await fetch("api/v1/" + path, { headers: headers(), signal }));
}

export async function post(path, body) {
  return answer(await fetch("api/v1/" + path, {
    method: "POST", headers: { ...headers(), "X-Mash2-Act": "1", "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}),
  }));
}

let left = false; // the page was left, and may come back as it was
addEventListener("pagehide", () => { left = true; });
addEventListener("pageshow", () => { left = false; });

// seen waits until the page can be seen.
const seen = () => new Promise((done) => {
  const look = () => {
    if (document.hidden || left) return;
    removeEventListener("visibilitychange", look);
    removeEventListener("pageshow", look);
    done();
  };
  addEventListener("visibilitychange", look);
  addEventListener("pageshow", look);
  look();
});

// listen calls onCycle after each cycle and onState when the line is lost or back. A
// stream by fetch, since EventSource can't send a token. A page that nobody sees has no
// stream: a browser has six connections to one host for all its tabs.
export async function listen(onCycle, onState) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 15000)) {
    await seen();
    const hidden = new AbortController();
    const leave = () => { if (document.hidden) hidden.abort(); };
    const gone = () => hidden.abort();
    addEventListener("visibilitychange", leave);
    addEventListener("pagehide", gone);
    try {
      const response = await fetch("api/v1/stream", { headers: headers(), signal: hidden.signal });
      if (!response.ok) await answer(response);
      onState(true);
      pause = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        const parts = rest.split("\n\n");
        rest = parts.pop();
        for (const p of parts) {
          const found = p.match(/event: cycle\ndata: (.*)/);
          if (found) onCycle(JSON.parse(found[1]).cycle);
        }
        if (parts.some((p) => p.includes("event: end"))) break;
      }
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        onState(false, error.message);
        return;
      }
      if (hidden.signal.aborted) continue;
      onState(false, error.message);
      await new Promise((r) => setTimeout(r, pause));
      continue;
    } finally {
      removeEventListener("visibilitychange", leave);
      removeEventListener("pagehide", gone);
    }
    onState(false, "the line was lost");
    await new Promise((r) => setTimeout(r, pause));
  }
}
