// A POST request: the page's question with additional fields, and the lines of the response.
import { reached } from "../server/connection.js";
import { eachLine } from "./lines.js";
import { question } from "./question.js";

function sent(name, more, signal) {
  const body = JSON.stringify({ ...question(), ...more }),
    headers = { "content-type": "application/json" };
  return reached(`playground/${name}${location.search}`, { method: "POST", body, signal, headers });
}

// Resolve once the response has ended; `take` receives its lines. Throws if the connection or `signal` ends it.
export async function post(name, more, take, signal) {
  const answer = await sent(name, more, signal);
  if (answer.ok) await eachLine(answer.body, take);
}
export const postOnce = async (name, more) => (await sent(name, more)).json();
