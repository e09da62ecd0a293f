// Lessons-only mode: the lesson sets the model and the prompt, and only the parts of the page that it uses are shown.
const EVERY = 400; // milliseconds between checks, because the page may redraw its header at any time
let timer = null;

const tabsOf = ({ state, steps }) =>
  new Set(
    [state, ...steps.flatMap(({ state, show, done }) => [state, show, { tab: done.view?.split(".")[0] }])]
      .map((each) => each?.tab)
      .filter(Boolean),
  );

// `workshop`: "" for the complete page; `lesson`: null while the list is shown.
export function alone(workshop, lesson) {
  clearInterval(timer);
  if (!workshop) return;
  document.documentElement.dataset.pgWorkshop = "";
  const tabs = lesson ? tabsOf(lesson) : new Set(),
    typed = lesson?.steps.some(({ done }) => done.typed);
  const look = () => {
    const groups = new Set();
    for (const button of document.querySelectorAll(".pg-nav [data-tab]")) {
      const here = tabs.has(button.dataset.tab);
      button.classList.toggle("pg-not-here", !here);
      if (here) groups.add(button.dataset.group);
    }
    for (const button of document.querySelectorAll(".pg-nav .pg-group:not([data-tab])"))
      button.classList.toggle("pg-not-here", !groups.has(button.dataset.group));
    const prompt = document.querySelector("#prompt textarea");
    if (prompt) prompt.readOnly = !typed;
  };
  look();
  timer = setInterval(look, EVERY);
}
