package upstream

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Progress is told how far a call is.
type Progress interface {
	Progress(ctx context.Context, progress, total float64, message string) error
}

// reports pass on the progress of the calls of a connection. The zero value is ready to use.
type reports struct {
	tokens atomic.Int64
	calls  sync.Map // from tokens to channels of reports
}

// mostReports is how many reports of a call wait for its host. What comes while they do is left out.
const mostReports = 64

// tell has a call told of its progress until done, which passes on what has come. A host that is slow to read it
// keeps nobody else's from coming, because all of them come on one connection.
func (r *reports) tell(ctx context.Context, report Progress) (token string, done func()) {
	token = "bridge-" + strconv.FormatInt(r.tokens.Add(1), 10)
	reports, ended := make(chan *mcp.ProgressNotificationParams, mostReports), make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		pass := func(p *mcp.ProgressNotificationParams) { _ = report.Progress(ctx, p.Progress, p.Total, p.Message) }
		for {
			select {
			case p := <-reports:
				pass(p)
			case <-ended:
				for range len(reports) {
					pass(<-reports)
				}
				return
			}
		}
	})
	r.calls.Store(token, reports)
	return token, func() {
		r.calls.Delete(token)
		close(ended)
		passing.Wait()
	}
}

// reported notes how far a call is.
func (r *reports) reported(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	if call, ok := r.calls.Load(req.Params.ProgressToken); ok {
		select {
		case call.(chan *mcp.ProgressNotificationParams) <- req.Params:
		default:
		}
	}
}
