#!/usr/bin/env node
// Starts the program for this platform, which npm has installed as a package of its own.
"use strict";
const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;
let program;
try {
	program = require.resolve(`@askback-mcp/${platform}/askback${process.platform === "win32" ? ".exe" : ""}`);
} catch {
	console.error(
		`askback: the package @askback-mcp/${platform} is missing: install askback again, without --omit=optional. ` +
			"If npm has no package for this platform, use: go install github.com/askback-mcp/askback/cmd/askback@latest",
	);
	process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
	console.error(`askback: ${err.message}: install askback again`);
	process.exit(1);
});
process.on("SIGTERM", () => child.kill("SIGTERM"));
process.on("SIGINT", () => {}); // a terminal sends it to both, and the program may have to finish something
child.on("exit", (code, signal) => {
	if (!signal) process.exit(code);
	process.removeAllListeners(signal);
	process.kill(process.pid, signal);
});
