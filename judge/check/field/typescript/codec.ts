// A correct server of the TypeScript SDK: its codec protects each state, and binds it to the principal, the method, the
// name and the arguments. A check must find nothing in it.
//
//   node codec.ts PORT
//
// Two callers may use it, with the tokens octocat and hubot.
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
    acceptedContent, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse, McpServer,
    type AuthInfo, type ServerContext
} from '@modelcontextprotocol/server';
import { z } from 'zod';

interface State {
    step: number;
    city?: string;
}

// The context of a handler has neither the name nor the arguments of its request, so they come from its body.
const bodies = new AsyncLocalStorage<string>();
const codec = createRequestStateCodec<State>({
    key: randomBytes(32),
    ttlSeconds: 300,
    bind: ctx => JSON.stringify([ctx.http?.authInfo?.clientId, ctx.mcpReq.method, bodies.getStore()])
});

function subject(body: unknown): string {
    const { name, uri, arguments: args } = (body as { params?: Record<string, unknown> } | undefined)?.params ?? {};
    const members = Object.entries((args ?? {}) as Record<string, unknown>).sort(([a], [b]) => (a < b ? -1 : 1));
    return createHash('sha256').update(JSON.stringify([name ?? uri, members])).digest('base64url');
}

const consent = z.object({ approve: z.boolean() });
const destination = z.object({ city: z.string().min(1).max(40) });
const stay = z.object({ nights: z.int().min(1).max(30), board: z.enum(['none', 'half', 'full']) });
const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });
const refused = (text: string) => ({ ...said(text), isError: true });

function newServer(): McpServer {
    const server = new McpServer({ name: 'codec', version: '1.0.0' }, { requestState: { verify: codec.verify } });
    const answers = (ctx: ServerContext) => ctx.mcpReq.inputResponses;
    const step = (ctx: ServerContext) => ctx.mcpReq.requestState<State>();
    const declined = (ctx: ServerContext, key: string) => {
        const answer = inputResponse(answers(ctx), key);
        return answer.kind === 'elicit' && (answer.action === 'decline' || answer.action === 'cancel');
    };

    server.registerTool(
        'deploy',
        { description: 'Deploys after a consent', inputSchema: z.object({ environment: z.string() }) },
        async ({ environment }, ctx) => {
            if (step(ctx) !== undefined) {
                if (declined(ctx, 'consent')) return said('Nothing was deployed.');
                const answer = acceptedContent(answers(ctx), 'consent', consent);
                if (answer !== undefined) return said(answer.approve ? `Deployed to ${environment}.` : 'Nothing was deployed.');
            }
            return inputRequired({
                inputRequests: { consent: inputRequired.elicit({ message: `Deploy to ${environment}?`, requestedSchema: consent }) },
                requestState: await codec.mint({ step: 1 }, ctx)
            });
        }
    );
    server.registerTool(
        'book',
        { description: 'Books a journey in two rounds', inputSchema: z.object({ traveller: z.string() }) },
        async ({ traveller }, ctx) => {
            const state = step(ctx);
            if (state !== undefined && (declined(ctx, 'destination') || declined(ctx, 'stay'))) return said('Nothing was booked.');
            const city = state?.city ?? (state && acceptedContent(answers(ctx), 'destination', destination)?.city);
            if (city === undefined) {
                return inputRequired({
                    inputRequests: { destination: inputRequired.elicit({ message: 'Where to?', requestedSchema: destination }) },
                    requestState: await codec.mint({ step: 1 }, ctx)
                });
            }
            const booked = state?.step === 2 ? acceptedContent(answers(ctx), 'stay', stay) : undefined;
            if (booked !== undefined) return said(`${traveller}: ${booked.nights} nights in ${city}, board: ${booked.board}`);
            return inputRequired({
                inputRequests: { stay: inputRequired.elicit({ message: `How long in ${city}?`, requestedSchema: stay }) },
                requestState: await codec.mint({ step: 2, city }, ctx)
            });
        }
    );
    server.registerTool('summarize', { description: 'Asks the model of the client' }, async ctx => {
        const answer = step(ctx) === undefined ? undefined : inputResponse(answers(ctx), 'summary');
        if (answer?.kind === 'sampling') {
            const [block] = [answer.result.content].flat();
            return block?.type === 'text' ? said(`The model says: ${block.text}`) : refused('The model sent no text.');
        }
        return inputRequired({
            inputRequests: {
                summary: inputRequired.createMessage({
                    maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text: 'Say one word.' } }]
                })
            },
            requestState: await codec.mint({ step: 1 }, ctx)
        });
    });
    server.registerPrompt(
        'letter', { description: 'Asks for a city', argsSchema: z.object({ topic: z.string() }) },
        async ({ topic }, ctx) => {
            const city = step(ctx) && acceptedContent(answers(ctx), 'destination', destination)?.city;
            if (city === undefined) {
                return inputRequired({
                    inputRequests: { destination: inputRequired.elicit({ message: 'From where?', requestedSchema: destination }) },
                    requestState: await codec.mint({ step: 1 }, ctx)
                });
            }
            return { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: `A letter from ${city} on ${topic}` } }] };
        }
    );
    server.registerTool(
        'add', { description: 'Adds, and never asks', inputSchema: z.object({ a: z.number(), b: z.number() }), annotations: { readOnlyHint: true } },
        ({ a, b }) => said(String(a + b))
    );
    return server;
}

const principals = new Map(['octocat', 'hubot'].map(name => [`Bearer ${name}`, name]));
const handle = toNodeHandler(createMcpHandler(newServer, { legacy: 'reject' }));
const [hostAllowed, originAllowed] = [localhostHostValidation(), localhostOriginValidation()];
const http = createServer(async (req, res) => {
    if (!hostAllowed(req, res) || !originAllowed(req, res)) return;
    const principal = principals.get(req.headers.authorization ?? '');
    if (principal === undefined) return void res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end();
    const auth: AuthInfo = { token: principal, clientId: principal, scopes: [] };
    let body: unknown;
    try {
        body = req.method === 'POST' ? await json(req) : undefined;
    } catch {
        return void res.writeHead(400).end();
    }
    await bodies.run(subject(body), () => handle(Object.assign(req, { auth }), res, body));
});
http.listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
