// A library that only some exports need, loaded with the first of them.
const libraries = new Map(); // name -> a promise of what it exports
let failed = 0; // a browser does not retry a module that failed to load, unless its address differs

export function vendor(name) {
  if (!libraries.has(name)) {
    const address = `../vendor/${name}${failed ? `?${failed}` : ""}`;
    const library = import(address).then(({ default: exported }) => exported);
    library.catch(() => {
      failed += 1;
      libraries.delete(name);
    });
    libraries.set(name, library);
  }
  return libraries.get(name);
}
