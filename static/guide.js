// The guided tour and the glossary.
//
// payload: { steps, terms, words }
(() => {
  const { define } = window.playground;

  define("guide", (root) => () => { root.hidden = true; });
})();
