// A POST request that sends the page's question with additional fields and receives the lines of the response.
import { reached } from "../server/connection.js";
import { pageState } from "../state.js";
import { eachLine } from "./lines.js";
import { question } from "./question.js";
import { forgetVisit, returned, visit } from "./visit.js";

async function sent(name, more, signal) {
  const body = JSON.stringify({ ...question(), ...more }),
    headers = { "content-type": "application/json" };
  const answer = await reached(`playground/${name}${location.search}`, { method: "POST", body, signal, headers });
  if (answer.status === 403 && returned && !pageState.leaving) startAnew();
  return answer;
}

// The name before the reload belongs to another login or address: reload once more under a new name.
function startAnew() {
  pageState.leaving = true;
  window.addEventListener("pagehide", forgetVisit);
  location.reload();
}

// Resolve at the end of the response, whose lines `take` receives. Throws if the connection breaks or `signal` aborts.
export async function post(name, more, take, signal) {
  const answer = await sent(name, more, signal);
  if (answer.ok) await eachLine(answer.body, take);
}
export const postOnce = async (name, more) => (await sent(name, more)).json();

// Tell the server something about this visit that needs no answer, also while the page is being left.
export function tell(name, more) {
  const body = JSON.stringify({ visit, ...more }),
    headers = { "content-type": "application/json" };
  fetch(`playground/${name}${location.search}`, { method: "POST", body, headers, keepalive: true }).catch(() => {});
}
