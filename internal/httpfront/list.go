package httpfront

import (
	"net/http"
	"strings"

	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/wire"
)

// serveList serves a list or server/discover past the SDK's transport, in the same form. If it reports false it has
// written nothing, and the SDK is to serve the request.
func serveList(
	w http.ResponseWriter, sdk *sdkfront.Front, r *http.Request, req *sdkfront.Request, asJSON bool,
) bool {
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") || len(r.Header["Last-Event-Id"]) > 0 {
		return false
	}
	result := sdk.List(r.Context(), req)
	if result == nil {
		return false
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache, no-transform")
	var head []byte
	tail := "}"
	if asJSON {
		header.Set("Content-Type", "application/json")
	} else {
		header.Set("Content-Type", "text/event-stream")
		header.Set("Connection", "keep-alive")
		head, tail = []byte("event: message\ndata: "), "}\n\n"
	}
	// Not in one piece: the result may be large, and others send it at the same time. A client that is gone gets nothing.
	_, _ = w.Write(wire.AppendResultHead(head, req.ID))
	_, _ = w.Write(result)
	_, _ = w.Write([]byte(tail))
	return true
}

// accepts reports whether the client takes responses of a media type, by that name.
func accepts(r *http.Request, mediaType string) bool {
	for _, value := range r.Header["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.TrimSpace(name) == mediaType {
				return true
			}
		}
	}
	return false
}
