// The JSON interface, as the page uses it.
export const secret = new URLSearchParams(location.hash.slice(1)).get("token");
const headers = secret === null ? {} : { authorization: `Bearer ${secret}` };

const failure = async (response) => {
  const { error } = await response.json().catch(() => ({ error: "" }));
  return new Error(error || `the server answered ${response.status}`);
};

export const runs = async () => {
  const response = await fetch("/api/runs", { headers });
  if (!response.ok) throw await failure(response);
  return response.json();
};

const post = async (run, operation, body, signal) => {
  const address = `/api/runs/${encodeURIComponent(run)}/${operation}`;
  const sent = { method: "POST", body: JSON.stringify(body), signal, headers: { ...headers, "content-type": "application/json" } };
  const response = await fetch(address, sent);
  if (!response.ok) throw await failure(response);
  return response;
};

export const request = async (run, operation, body, signal) => (await post(run, operation, body, signal)).json();

// Every line of an answer as it comes.
export async function* lines(run, operation, body, signal) {
  const reader = (await post(run, operation, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    for (const line of whole) {
      const event = JSON.parse(line);
      if (event.event === "error") throw new Error(event.error);
      yield event;
    }
  }
}
