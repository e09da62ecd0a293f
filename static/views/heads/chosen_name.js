// The name of heads that is shown: "" for all. The cards and the table have one filter in common.
const heard = new Set();
let chosen = "";
export const chosenName = () => chosen;
export const onName = (call) => heard.add(call);
export function chooseName(name) {
  if (name === chosen) return;
  chosen = name;
  for (const call of heard) call();
}
