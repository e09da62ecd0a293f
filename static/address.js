// The state of the page in its address: links, back and forward, files.
