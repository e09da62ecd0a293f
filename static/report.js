// The report of a session: one file.
