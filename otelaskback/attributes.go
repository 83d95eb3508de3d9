package otelaskback

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
)

// Attributes of the semantic conventions. Those for MCP are in development and have no package of their own.
const (
	attrMethod     = attribute.Key("mcp.method.name")
	attrProtocol   = attribute.Key("mcp.protocol.version")
	attrSession    = attribute.Key("mcp.session.id")
	attrResource   = attribute.Key("mcp.resource.uri")
	attrTool       = attribute.Key("gen_ai.tool.name")
	attrPrompt     = attribute.Key("gen_ai.prompt.name")
	attrOperation  = attribute.Key("gen_ai.operation.name")
	attrRequestID  = attribute.Key("jsonrpc.request.id")
	attrStatusCode = attribute.Key("rpc.response.status_code")
	attrErrorType  = attribute.Key("error.type")
	attrTransport  = attribute.Key("network.transport")
	attrServer     = attribute.Key("server.address")
	attrPort       = attribute.Key("server.port")
)

// Attributes of our own.
const (
	attrCall        = attribute.Key("askback.call.id")
	attrTask        = attribute.Key("askback.task.name")
	attrRound       = attribute.Key("askback.round")
	attrOutcome     = attribute.Key("askback.outcome")
	attrReason      = attribute.Key("askback.reason")
	attrAsked       = attribute.Key("askback.asked")
	attrStateBytes  = attribute.Key("askback.state.bytes")
	attrStep        = attribute.Key("askback.step.name")
	attrRecovered   = attribute.Key("askback.task.recovered")
	attrTaskStatus  = attribute.Key("askback.task.status")
	attrDeadline    = attribute.Key("askback.question.deadline")
	attrNotice      = attribute.Key("askback.notice.kind")
	attrStoreMethod = attribute.Key("askback.store.method")
)

// longest bounds texts of clients, such as the name of a tool that may not exist.
const longest = 256

// cut makes a text fit for an attribute. One that is not UTF-8 would keep an exporter from sending all the spans
// beside it.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longest)], "\uFFFD")
}

// named returns the name of the tool or prompt that an operation is for, and its attribute; neither for a resource.
func named(op *askback.Operation) (target string, key attribute.Key) {
	switch op.Method {
	case "tools/call":
		return cut(op.Target), attrTool
	case "prompts/get":
		return cut(op.Target), attrPrompt
	}
	return "", ""
}

// startAttributes returns the attributes that are known when an operation begins. A sampler sees only these.
func startAttributes(op *askback.Operation) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 20)
	if target, key := named(op); target != "" {
		all = append(all, key.String(target))
	}
	if op.Method == "tools/call" && op.Kind == askback.OperationRequest {
		all = append(all, attrOperation.String("execute_tool"))
	}
	if op.Method == "resources/read" && op.Target != "" {
		all = append(all, attrResource.String(cut(op.Target)))
	}
	for _, a := range [...]attribute.KeyValue{
		attrMethod.String(op.Method), attrCall.String(op.Call), attrTask.String(op.Task), attrStep.String(cut(op.Step)),
		attrRequestID.String(op.Request), attrSession.String(cut(op.Session)),
		attrProtocol.String(cut(op.Protocol)), attrTransport.String(transport(op)),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	if op.Recovered {
		all = append(all, attrRecovered.Bool(true))
	}
	return all
}

// transport returns the transport protocol of a request. Whether HTTP runs over QUIC, the server does not know.
func transport(op *askback.Operation) string {
	switch op.Transport {
	case askback.TransportHTTP:
		return "tcp"
	case askback.TransportPipe:
		return "pipe"
	}
	return ""
}

// errorType returns the class of the error that an operation ended with, or "".
func errorType(op *askback.Operation) string {
	switch {
	case op.Code != 0:
		return strconv.FormatInt(op.Code, 10)
	case op.Outcome == "lease_lost", op.Outcome == "timeout":
		return op.Outcome
	case op.Outcome == "unanswered":
		return "_OTHER"
	case op.Outcome != "failed":
		return ""
	case op.Kind == askback.OperationStep:
		return "_OTHER"
	}
	return "tool_error"
}

// end ends the span of an operation.
func end(span trace.Span, op *askback.Operation) {
	if span.IsRecording() {
		all := append(make([]attribute.KeyValue, 0, 8), attrOutcome.String(op.Outcome))
		if op.Round > 0 {
			all = append(all, attrRound.Int(op.Round))
		}
		if op.Task != "" {
			all = append(all, attrTask.String(op.Task)) // of a request that made the task it is known now
		}
		if op.Reason != "" {
			all = append(all, attrReason.String(op.Reason))
		}
		if len(op.Asked) > 0 {
			asked := make([]string, len(op.Asked))
			for i, key := range op.Asked {
				asked[i] = cut(key)
			}
			all = append(all, attrAsked.StringSlice(asked))
		}
		if op.StateBytes > 0 {
			all = append(all, attrStateBytes.Int(op.StateBytes))
		}
		if op.Code != 0 {
			all = append(all, attrStatusCode.String(strconv.FormatInt(op.Code, 10)))
		}
		if class := errorType(op); class != "" {
			all = append(all, attrErrorType.String(class))
			span.SetStatus(codes.Error, "")
		}
		span.SetAttributes(all...)
	}
	span.End()
}
