// One request of the wire: the page's question with more, and the lines of the answer.
import { reached } from "../server/connection.js";
import { eachLine } from "./lines.js";
import { question } from "./question.js";

function sent(name, more, signal) {
  const body = JSON.stringify({ ...question(), ...more }),
    headers = { "content-type": "application/json" };
  return reached(`playground/${name}${location.search}`, { method: "POST", body, signal, headers });
}

// Resolves once the answer has ended; `take` gets its lines. Throws where the connection or `signal` ends it.
export async function post(name, more, take, signal) {
  const answer = await sent(name, more, signal);
  if (answer.ok) await eachLine(answer.body, take);
}
export const postOnce = async (name, more) => (await sent(name, more)).json();
