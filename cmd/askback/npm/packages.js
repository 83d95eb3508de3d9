#!/usr/bin/env node
// Makes npm packages of what goreleaser has built: one for each platform, of which npm installs the one that fits, and
// "askback", which starts its program.
//
//	cmd/askback/npm/packages.js    # in the folder that has dist; writes dist/npm/NAME
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const repository = path.join(__dirname, "../../..");
const os = { darwin: "darwin", linux: "linux", windows: "win32" };
const cpu = { amd64: "x64", arm64: "arm64" };

const read = (file) => JSON.parse(fs.readFileSync(file, "utf8"));
const { version } = read("dist/metadata.json");

function write(name, program, fields) {
	const folder = path.join("dist/npm", name);
	fs.mkdirSync(folder, { recursive: true });
	for (const file of [program, `${repository}/LICENSE`, `${repository}/README.md`]) {
		fs.copyFileSync(file, path.join(folder, path.basename(file)));
	}
	const about = {
		name,
		version,
		license: "Apache-2.0",
		homepage: "https://github.com/askback-mcp/askback",
		repository: { type: "git", url: "git+https://github.com/askback-mcp/askback.git" }, // provenance needs it
		...fields,
	};
	fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify(about, null, 2) + "\n");
}

const platforms = {};
for (const { type, goos, goarch, path: program } of read("dist/artifacts.json")) {
	if (type !== "Binary") continue;
	const name = `@askback-mcp/${os[goos]}-${cpu[goarch]}`;
	platforms[name] = version;
	const description = `The askback command for ${goos} on ${goarch}: install the package askback`;
	write(name, program, { description, os: [os[goos]], cpu: [cpu[goarch]], preferUnplugged: true });
}
write("askback", path.join(__dirname, "askback.js"), {
	description: "Let people answer the questions of any MCP server: askback bridge",
	bin: { askback: "askback.js" },
	engines: { node: ">=18" },
	optionalDependencies: platforms,
});
