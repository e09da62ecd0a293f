// One request of the wire: the page's question with more, and the lines of the answer.
import { joined } from "../server/connection.js";
import { eachLine } from "./lines.js";
import { question } from "./question.js";

const address = (name) => `playground/${name}${location.search}`;
async function sent(name, more, signal) {
  const body = JSON.stringify({ ...(await question()), ...more });
  return joined(address(name), { method: "POST", body, signal, headers: { "content-type": "application/json" } });
}

// Resolves once the answer has ended; `take` gets its lines. Throws where the connection or `signal` ends it.
export async function ask(name, more, take, signal) {
  const answer = await sent(name, more, signal);
  if (answer.ok) await eachLine(answer.body, take);
}
export const askOnce = async (name, more) => (await sent(name, more)).json();
