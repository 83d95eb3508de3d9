// The TypeScript SDK's server as a peer of the matrix.
//
//   node server.ts http     prints its URL, and serves both revisions there; so does legacy
//   node server.ts stdio    serves standard input and output
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

import {
    localhostHostValidation, localhostOriginValidation, NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest
} from '@modelcontextprotocol/node';
import {
    acceptedContent, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse, isInitializeRequest,
    isLegacyRequest, McpServer, type ServerContext
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

interface State {
    name?: string;
    city?: string;
}
const codec = createRequestStateCodec<State>({ key: randomBytes(32) });

const person = z.object({ name: z.string() });
const form = (message: string) => inputRequired.elicit({ message, requestedSchema: person });
const prompt = (text: string) =>
    inputRequired.createMessage({ maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text } }] });
const done = (text: string) => ({ content: [{ type: 'text' as const, text }] });

function newServer(): McpServer {
    const server = new McpServer({ name: 'typescript', version: '1.0.0' }, { requestState: { verify: codec.verify } });

    const name = (ctx: ServerContext, key: string) => acceptedContent(ctx.mcpReq.inputResponses, key, person)?.name;
    const said = (ctx: ServerContext, key: string) => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, key);
        if (answer.kind !== 'sampling') return undefined;
        const [block] = [answer.result.content].flat();
        return block?.type === 'text' ? block.text : undefined;
    };
    const root = (ctx: ServerContext, key: string) => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, key);
        return answer.kind === 'roots' ? answer.roots[0]?.uri : undefined;
    };

    server.registerTool('t_elicit', {}, async ctx => {
        const who = name(ctx, 'person');
        if (who === undefined) return inputRequired({ inputRequests: { person: form('What is your name?') } });
        return done(`Hello, ${who}.`);
    });
    server.registerTool('t_sample', {}, async ctx => {
        const capital = said(ctx, 'capital');
        if (capital === undefined) return inputRequired({ inputRequests: { capital: prompt('What is the capital of France?') } });
        return done(`The model says: ${capital}`);
    });
    server.registerTool('t_roots', {}, async ctx => {
        const uri = root(ctx, 'roots');
        if (uri === undefined) return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
        return done(`Roots: ${uri}`);
    });
    server.registerTool('t_three', {}, async ctx => {
        if (ctx.mcpReq.inputResponses === undefined) {
            return inputRequired({
                inputRequests: {
                    person: form('What is your name?'),
                    capital: prompt('What is the capital of France?'),
                    roots: inputRequired.listRoots()
                }
            });
        }
        return done(`${name(ctx, 'person')}, ${said(ctx, 'capital')}, ${root(ctx, 'roots')}`);
    });
    server.registerTool('t_rounds', {}, async ctx => {
        const state = ctx.mcpReq.requestState<State>() ?? {};
        const signer = name(ctx, 'signer');
        if (signer !== undefined) return done(`${state.name} of ${state.city}, signed ${signer}`);
        const city = said(ctx, 'city');
        if (city !== undefined) {
            return inputRequired({
                inputRequests: { signer: form(`${state.name} of ${city}: who signs?`) },
                requestState: await codec.mint({ ...state, city })
            });
        }
        const who = name(ctx, 'person');
        if (who !== undefined) {
            return inputRequired({
                inputRequests: { city: prompt(`Where does ${who} live?`) },
                requestState: await codec.mint({ name: who })
            });
        }
        return inputRequired({ inputRequests: { person: form('What is your name?') } });
    });
    server.registerTool('t_state', {}, async ctx => {
        if (ctx.mcpReq.requestState<State>() === undefined) return inputRequired({ requestState: await codec.mint({}) });
        return done('served the second time');
    });
    server.registerTool('t_decline', {}, async ctx => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'person');
        if (answer.kind !== 'elicit') {
            return inputRequired({ inputRequests: { person: form('Delete everything? Sign with your name.') } });
        }
        return done(answer.action === 'decline' ? 'Nothing was deleted.' : `Deleted for ${name(ctx, 'person')}`);
    });
    return server;
}

// Sessions of earlier revisions, as the SDK's documentation of isLegacyRequest routes them.
const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
async function serveSession(req: IncomingMessage, res: ServerResponse, body: unknown) {
    let transport = sessions.get(String(req.headers['mcp-session-id']));
    if (transport === undefined && isInitializeRequest(body)) {
        const opened = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: id => void sessions.set(id, opened)
        });
        opened.onclose = () => void sessions.delete(opened.sessionId ?? '');
        await newServer().connect(opened);
        transport = opened;
    }
    if (transport === undefined) {
        res.writeHead(404).end();
        return;
    }
    await transport.handleRequest(req, res, body);
}

function serveHTTP() {
    const modern = toNodeHandler(createMcpHandler(newServer, { legacy: 'reject' }));
    const hostAllowed = localhostHostValidation();
    const originAllowed = localhostOriginValidation();
    const http = createServer(async (req, res) => {
        if (!hostAllowed(req, res) || !originAllowed(req, res)) return;
        const body = req.method === 'POST' ? await json(req) : undefined;
        const legacy = await isLegacyRequest(await toWebRequest(req, body));
        await (legacy ? serveSession(req, res, body) : modern(req, res, body));
    });
    http.listen(0, '127.0.0.1', () => {
        console.log(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
    });
}

if (process.argv[2] === 'stdio') serveStdio(newServer);
else serveHTTP();
