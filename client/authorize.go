package client

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// authorizeOnce asks for authorization once while a session connects. When authorization is
// refused during server/discover, the SDK assumes a server of an earlier revision, connects
// again, and would send the user through the same authorization a second time.
type authorizeOnce struct {
	auth.OAuthHandler

	mu        sync.Mutex
	connected bool
	refused   error
}

func (a *authorizeOnce) Authorize(ctx context.Context, req *http.Request, res *http.Response) error {
	a.mu.Lock()
	if a.connected {
		a.mu.Unlock()
		return a.OAuthHandler.Authorize(ctx, req, res)
	}
	defer a.mu.Unlock()
	if a.refused == nil {
		a.refused = a.OAuthHandler.Authorize(ctx, req, res)
	} else {
		res.Body.Close()
	}
	return a.refused
}

// done ends the connecting: from now on a refusal is not remembered.
func (a *authorizeOnce) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.connected = true
}
