// Asks the server. Errors carry the server's sentence; a missing log-in is told to the page once.

export class Refused extends Error {
  constructor(status, error, text) {
    super(text);
    this.status = status;
    this.error = error;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "ballast ui does not answer; it may have been stopped");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("log-in-needed"));
  throw new Refused(answer.status, told.error || "error", told.text || `the server answered ${answer.status}`);
}

export const getJson = async (path, signal) => (await ask(path, { signal })).json();

export const getBytes = async (path, signal) => (await ask(path, { signal })).arrayBuffer();

export async function send(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method, headers, body: JSON.stringify(body || {}) })).json();
}

/** The path of a document about something with a name, which may contain slashes. */
export const about = (kind, name) => `/api/${kind}/${String(name).split("/").map(encodeURIComponent).join("/")}`;
