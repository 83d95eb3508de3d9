// Prints what the suite found, from the results that `run` left in a directory, and
// exits with 1 if anything counts that did not pass. It is stricter than the suite's
// own exit code: warnings count, and so do scenarios that no revision requires.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parse } from 'yaml';

// What may fail or warn, each with its reason; one that no longer does is an error too.
// The README has the long version.
const known = {
	'2026-07-28/mcp input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params':
		'the suite answers a question that was never asked, which counts only without requestState: passes on /bare',
};

// Scenarios that do not count. The tasks extension is reported only, until it is there.
const reportedOnly = new Set(['extension']);

const results = process.argv[2];
const suite = path.dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json'));
const problems = [];
const excused = [];
const unseen = new Set(Object.keys(known));

for (const revision of fs.readdirSync(results).sort().reverse()) {
	if (!/^\d{4}-\d{2}-\d{2}$/.test(revision)) continue;
	const requirements = parse(fs.readFileSync(path.join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
	const groups = new Map([['required', requirements.server]]);
	for (const { scenario, leg, reason } of requirements.not_scored) {
		if (leg === 'server') groups.set(reason, [...(groups.get(reason) ?? []), scenario]);
	}
	for (const endpoint of fs.readdirSync(path.join(results, revision)).sort().reverse()) {
		const checks = readChecks(path.join(results, revision, endpoint, 'scenarios'));
		const counts = [];
		for (const [group, scenarios] of groups) {
			const passed = scenarios.filter((scenario) => judge(`${revision}/${endpoint}`, group, scenario, checks.get(scenario) ?? []));
			const note = reportedOnly.has(group) ? ', not counted' : '';
			counts.push(`${group} ${passed.length} of ${scenarios.length}${note}`);
		}
		console.log(`${revision}  ${`/${endpoint}`.padEnd(5)}  ${counts.join('; ')}`);
	}
}
for (const id of unseen) problems.push(`${id}: passes now: remove it from summary.mjs`);
for (const line of excused) console.log(`  known: ${line}`);
for (const line of problems) console.log(`  ✗ ${line}`);
process.exit(problems.length > 0 ? 1 : 0);

// readChecks returns the checks of every scenario in a directory of the suite's results.
function readChecks(dir) {
	const found = new Map();
	for (const name of fs.readdirSync(dir)) {
		const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, '');
		found.set(scenario, JSON.parse(fs.readFileSync(path.join(dir, name, 'checks.json'), 'utf8')));
	}
	return found;
}

// judge reports whether a scenario passed. One that checked nothing did not.
function judge(run, group, scenario, checks) {
	const bad = checks.filter((check) => check.status === 'FAILURE' || check.status === 'WARNING');
	const counting = bad.filter((check) => {
		const id = `${run} ${scenario}:${check.id}`;
		if (!(id in known)) return true;
		unseen.delete(id);
		excused.push(`${id}: ${known[id]}`);
		return false;
	});
	const exercised = checks.some((check) => check.status === 'SUCCESS' && check.id !== 'wire-schema-valid') || bad.length > counting.length;
	if (!reportedOnly.has(group)) {
		for (const check of counting) problems.push(`${run} ${scenario}: ${check.status} ${check.id}: ${check.errorMessage ?? check.description}`);
		if (!exercised && bad.length === 0) problems.push(`${run} ${scenario}: nothing was checked`);
	}
	return counting.length === 0 && exercised;
}
