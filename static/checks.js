// Is this right? The table of checks.
