package bridge_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// BenchmarkPassing calls a tool that asks nothing, at the server and through the bridge, with arguments of some sizes.
// The difference is what the bridge costs, beside the client of the benchmark.
func BenchmarkPassing(b *testing.B) {
	behind := newBehind(b)
	front := newFront(b, behind.url)
	for _, size := range []int{10, 100_000} {
		for _, at := range []struct{ name, url string }{{"server", behind.url}, {"bridge", front.url}} {
			b.Run(fmt.Sprint(at.name, " ", size), func(b *testing.B) {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":`+
					`{"input":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
					`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
					`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, strings.Repeat("x", size))
				for b.Loop() {
					req := expect.Must(http.NewRequest(http.MethodPost, at.url, strings.NewReader(body)))(b)
					for name, value := range map[string]string{
						"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
						"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
					} {
						req.Header.Set(name, value)
					}
					res := expect.Must(http.DefaultClient.Do(req))(b)
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
						b.Fatal(res.Status, err)
					}
					res.Body.Close()
				}
			})
		}
	}
}
