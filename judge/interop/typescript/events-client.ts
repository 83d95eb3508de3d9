// The AI SDK's client as a peer of the matrix of events: it has webhooks posted to a receiver of its own, and tells in
// one line what came.
//
//   node events-client.ts http TARGET SCENARIO
import { createServer } from 'node:https';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import {
    createMCPClient, experimental_createMCPEventWebhook as createWebhook, type Experimental_MCPEvent as Event,
    type Experimental_MCPEventStore as Store, type Experimental_MCPEventSubscription as Subscription
} from '@ai-sdk/mcp';

const [, target, scenario] = process.argv.slice(2);

const subscriptions = new Map<string, Subscription>();
const store: Store = {
    get: async key => subscriptions.get(key),
    getById: async id => [...subscriptions.values()].find(subscription => subscription.id === id),
    set: async subscription => void subscriptions.set(subscription.key, subscription),
    update: async (key, patch) => void subscriptions.set(key, { ...subscriptions.get(key)!, ...patch }),
    delete: async key => void subscriptions.delete(key)
};

// The receiver, behind a certificate that the server is made to trust.
let arrived: (event: Event) => void;
const next = () => new Promise<Event>(resolve => (arrived = resolve));
const receive = createWebhook({ store, onEvent: async ({ event }) => arrived(event) });
const receiver = createServer(
    { cert: readFileSync(process.env.INTEROP_CERTIFICATE!), key: readFileSync(process.env.INTEROP_KEY!) },
    async (req, res) => {
        const chunks: Buffer[] = [];
        for await (const chunk of req) chunks.push(chunk);
        const answer = await receive(new Request(`https://127.0.0.1${req.url}`, {
            method: req.method, headers: req.headers as Record<string, string>, body: Buffer.concat(chunks)
        }));
        res.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(await answer.text());
    }
);
await new Promise<void>(resolve => receiver.listen(0, '127.0.0.1', resolve));
const url = `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`;

const client = await createMCPClient({
    transport: { type: 'http', url: target, headers: { 'X-User': 'alice' } }, experimental_events: { store }
});
const events = client.experimental_events;
const subscribe = (tool: string) => events.subscribe({ name: 'call.ended', arguments: { tool }, delivery: { mode: 'webhook', url } });
const call = async (name: string) => {
    const tools = await client.tools();
    await tools[name].execute!({}, { toolCallId: '1', messages: [] });
};
const told = (event: Event) => `${event.name}: ${event.data.tool} ${event.data.status}`;

async function outcome(): Promise<string> {
    switch (scenario) {
        case 'e_listed': {
            const listed = (await events.list()).events.filter(event => event.delivery.includes('webhook'));
            return listed.map(event => event.name).sort().join(', ');
        }
        case 'e_ended': {
            await subscribe('e_job');
            const event = next();
            await call('e_other');
            await call('e_job');
            return told(await event);
        }
        case 'e_refreshed': {
            const { id, refreshBefore } = await subscribe('e_job');
            const again = await events.refresh({ id });
            const event = next();
            await call('e_job');
            const later = Date.parse(again.refreshBefore!) >= Date.parse(refreshBefore!);
            return `the same: ${again.id === id}, later: ${later}, ${told(await event)}`;
        }
        case 'e_ends': {
            const { id } = await subscribe('e_job');
            const { key } = (await store.getById(id))!;
            const kept = { ...subscriptions.get(key)! };
            await events.unsubscribe({ id });
            subscriptions.set(key, kept);
            return events.unsubscribe({ id }).then(() => 'not refused', error => String(error.code));
        }
        default:
            throw new Error(`unknown scenario ${scenario}`);
    }
}

try {
    console.log(JSON.stringify({ revision: '2026-07-28', result: { content: [{ type: 'text', text: await outcome() }] } }));
} catch (error) {
    console.error(String(error));
    process.exitCode = 1;
} finally {
    await client.close();
    receiver.close();
    receiver.closeAllConnections();
}
