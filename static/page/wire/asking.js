// Who asks the server for what the page shows: null while the framework does (viz/page/build.py, `wire`).
export const asking = { ask: null, job: null, event: null };
