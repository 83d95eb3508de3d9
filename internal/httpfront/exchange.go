package httpfront

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// exchange is one HTTP request and the response to it. It is allocated in one piece, with the memory for serving the
// request.
type exchange struct {
	gate    *gate.Gate
	pace    pace
	shares  shares
	reply   reply
	stream  eventStream      // the response to a modern request
	request sdkfront.Request // the caller and, once the body is read, a modern request
	outline strictjson.Outline
}

func newExchange(w http.ResponseWriter, g *gate.Gate) *exchange {
	x := &exchange{gate: g}
	x.pace.w = w
	x.shares.pools, x.shares.pace = g.Shares, &x.pace
	x.reply.pace, x.reply.shares, x.reply.ran = &x.pace, &x.shares, &x.request.Ran
	x.request.Client = &x.stream
	return x
}

// admit names the caller of a request and takes its share of those in progress, before its body is read.
func (x *exchange) admit(r *http.Request) (err error) {
	x.request.Extra = mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
	x.request.Principal, err = x.gate.Principal(r.Context(), gate.Access{Extra: &x.request.Extra})
	if err != nil {
		return err
	}
	return x.shares.take(r.Context(), x.request.Principal)
}

// turnAway answers a request that was not admitted, or to no share of the limits.
func (x *exchange) turnAway(r *http.Request, err error) {
	x.gate.TurnAway(r.Context(), gate.Origin{Transport: report.TransportHTTP}, err)
	fail(&x.reply, nil, err)
}

func (x *exchange) release() {
	x.pace.end()
	x.shares.release()
}

// retainBody copies what the request, which stays open, needs of its body into a smaller body, and gives back the
// memory of the original. It returns the smaller body. From now on the request waits.
func (x *exchange) retainBody(body []byte, depth int) []byte {
	defer x.shares.waitForClient()
	if len(body) <= bound.Small {
		return body
	}
	req := &x.request
	var params bytes.Buffer
	if req.Params != nil {
		_ = json.Compact(&params, req.Params) // checked JSON
		req.Params = params.Bytes()
	}
	body = wire.AppendRequest(nil, req.Request)
	req.Request, _ = wire.ParseRequest(body, depth, &x.outline, false)
	req.Args = wire.Params{Target: req.Args.Target}
	req.Args.Meta, _ = wire.ParseMeta(strictjson.Get(req.Params, "_meta")) // checked before
	x.shares.shrink(len(body))
	return body
}
