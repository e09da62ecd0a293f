// F6 moves the focus between the part that the lesson is about and the lesson's question, as between the panes of a
// window. With Tab alone, this would take a hundred key presses.
const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
const reachable = (node) => node.tabIndex >= 0 && !node.disabled && node.getClientRects().length > 0;
let spoken = () => null; // returns the part that the lesson is about

export const switching = (of) => {
  spoken = of;
};
const within = (node) => (node ? [node, ...node.querySelectorAll(STOPS)].find(reachable) : null);

document.addEventListener("keydown", (event) => {
  const panel = document.querySelector(".pg-learn");
  if (event.key !== "F6" || !panel) return;
  event.preventDefault();
  if (!panel.contains(document.activeElement)) {
    const asked = [".pg-learn-form input", ".pg-learn-next", ".pg-learn-do"].map((each) => panel.querySelector(each));
    (asked.find((node) => node?.getClientRects().length) ?? panel).focus();
  } else (within(spoken()) ?? document.querySelector(".pg-nav button"))?.focus();
});
