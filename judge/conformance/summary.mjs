// Prints what the suite found, from the results that `run` left in a directory, and
// exits with 1 if anything counts that did not pass. It is stricter than the suite's
// own exit code: warnings count, and so do scenarios that no revision requires, and a
// client that complains.
//
//	summary.mjs DIR server|client|bridge…
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parse } from 'yaml';

// What may fail or warn, each with its reason; one that no longer does is an error too.
// The README has the long version.
const extra = 'the suite answers a question that was never asked, which counts only without requestState';
const noEvents = 'the bridge keeps no events of a stream that breaks: its hosts call again, or ask for the result later';
const known = {
	'server 2026-07-28/mcp input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params':
		`${extra}: passes on /bare`,
	'bridge 2026-07-28/mcp input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params': extra,
	'bridge 2026-07-28/mcp tasks-required-task-error:sep-2663-server-returns-missing-capability-when-required':
		'the bridge follows tasks of the server for hosts that take none, and gives these the result',
	'bridge 2025-11-25/mcp server-sse-polling:server-sse-priming-event': noEvents,
	'bridge 2025-11-25/mcp server-sse-polling:server-sse-retry-field': noEvents,
};

// Scenarios that skip themselves in this version of the suite, each with its reason; one
// that no longer does is an error too.
const noCheck = 'the suite has no check for it yet; Askback has its own (internal/sdkfront/subscriptions_test.go)';
const skipped = { 'server tasks-status-notifications': noCheck, 'bridge tasks-status-notifications': noCheck };

// Scenarios that do not count, but are reported: the extensions that are the SDK's affair.
const reportedOnly = (half, group) => half === 'client' && group === 'extension';

const [results, ...halves] = process.argv.slice(2);
const suite = path.dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json'));
const problems = [];
const excused = [];
const unseen = new Set(Object.keys(known).filter((id) => halves.includes(id.split(' ')[0])));

const unskipped = new Set(Object.keys(skipped).filter((id) => halves.includes(id.split(' ')[0])));

for (const half of halves) {
	for (const revision of directories(path.join(results, half))) {
		const requirements = parse(fs.readFileSync(path.join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
		const side = half === 'bridge' ? 'server' : half;
		const groups = new Map([['required', requirements[side]]]);
		for (const { scenario, leg, reason } of requirements.not_scored) {
			if (leg === side) groups.set(reason, [...(groups.get(reason) ?? []), scenario]);
		}
		for (const name of directories(path.join(results, half, revision))) {
			const found = readResults(path.join(results, half, revision, name, 'scenarios'));
			const counts = [];
			for (const [group, scenarios] of groups) {
				const verdicts = scenarios.map((scenario) => judge(half, `${half} ${revision}/${name}`, group, scenario, found.get(scenario)));
				const count = (verdict) => verdicts.filter((v) => v === verdict).length;
				const skips = count('skipped') > 0 ? `, ${count('skipped')} skips itself` : '';
				const note = reportedOnly(half, group) ? ', not counted' : '';
				counts.push(`${group} ${count('passed')} of ${scenarios.length}${skips}${note}`);
			}
			console.log(`${half}  ${revision}  ${name.padEnd(10)}  ${counts.join('; ')}`);
		}
	}
}
for (const id of unskipped) problems.push(`${id}: does not skip itself any more: remove it from summary.mjs`);
for (const id of unseen) problems.push(`${id}: passes now: remove it from summary.mjs`);
for (const [id, reason] of Object.entries(skipped)) if (halves.includes(id.split(' ')[0])) console.log(`  skips itself: ${id}: ${reason}`);
for (const line of excused) console.log(`  known: ${line}`);
for (const line of problems) console.log(`  ✗ ${line}`);
process.exit(problems.length > 0 ? 1 : 0);

// directories returns what is in a directory, the last first.
function directories(dir) {
	return fs.readdirSync(dir).sort().reverse();
}

// readResults returns the checks of every scenario in a directory of the suite's
// results, and what the client that played it wrote to standard error.
function readResults(dir) {
	const found = new Map();
	for (const file of fs.readdirSync(dir, { recursive: true })) {
		if (path.basename(file) !== 'checks.json') continue;
		const scenario = path.dirname(file).replace(/^server-/, '').replace(/-\d{4}-\d{2}-\d{2}T[\d-]+Z$/, '');
		const stderr = path.join(dir, path.dirname(file), 'stderr.txt');
		found.set(scenario, {
			checks: JSON.parse(fs.readFileSync(path.join(dir, file), 'utf8')),
			complaint: fs.existsSync(stderr) ? fs.readFileSync(stderr, 'utf8').trim() : '',
		});
	}
	return found;
}

// judge says whether a scenario passed, failed or skipped itself. One that checked nothing did not pass.
function judge(half, run, group, scenario, { checks, complaint } = { checks: [], complaint: '' }) {
	if (`${half} ${scenario}` in skipped && checks.length > 0 && checks.every((check) => check.status === 'SKIPPED' || check.id === 'wire-schema-valid')) {
		unskipped.delete(`${half} ${scenario}`);
		return 'skipped';
	}
	const bad = checks.filter((check) => check.status === 'FAILURE' || check.status === 'WARNING');
	const counting = bad.filter((check) => {
		const id = `${run} ${scenario}:${check.id}`;
		if (!(id in known)) return true;
		unseen.delete(id);
		excused.push(`${id}: ${known[id]}`);
		return false;
	});
	const exercised = checks.some((check) => check.status === 'SUCCESS' && check.id !== 'wire-schema-valid') || bad.length > counting.length;
	if (!reportedOnly(half, group)) {
		for (const check of counting) problems.push(`${run} ${scenario}: ${check.status} ${check.id}: ${check.errorMessage ?? check.description}`);
		if (complaint !== '') problems.push(`${run} ${scenario}: ${complaint}`);
		if (!exercised && bad.length === 0) problems.push(`${run} ${scenario}: nothing was checked`);
	}
	return counting.length === 0 && exercised && complaint === '' ? 'passed' : 'failed';
}
