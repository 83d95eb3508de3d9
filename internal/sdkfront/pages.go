package sdkfront

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// pages are the encoded pages of the list of tools, from the first on: each has the cursor that the one before it led
// to. So there are never more than the list has. The zero value has none.
type pages struct {
	mu   sync.Mutex
	kept []page
}

type page struct {
	cursor  string
	list    *mcp.ListToolsResult // which holds the SDK's own *mcp.Tool
	encoded []byte
}

// encode returns the encoding of the list that the cursor leads to.
func (p *pages) encode(cursor string, list *mcp.ListToolsResult, info []byte) ([]byte, error) {
	p.mu.Lock() // also while encoding: the one who waits needs what comes out
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.kept, func(k page) bool { return k.cursor == cursor })
	if i >= 0 && same(p.kept[i].list, list) {
		return p.kept[i].encoded, nil
	}
	encoded, err := encodeList(list, info)
	if err != nil {
		return nil, err
	}
	if i >= 0 { // it has changed, and the pages behind it may be others
		clear(p.kept[i:])
		p.kept = p.kept[:i]
	}
	// Anybody can make up a cursor that no page leads to.
	if n := len(p.kept); n == 0 && cursor == "" || n > 0 && cursor != "" && p.kept[n-1].list.NextCursor == cursor {
		p.kept = append(p.kept, page{cursor, list, encoded})
	}
	return encoded, nil
}

func same(a, b *mcp.ListToolsResult) bool {
	return a.Cacheable == b.Cacheable && a.NextCursor == b.NextCursor && slices.Equal(a.Tools, b.Tools)
}

// encodeList encodes a result as the SDK does: without escapes for HTML, where the descriptions of tools are readable.
func encodeList(result mcp.Result, info []byte) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return nil, err
	}
	encoded := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return wire.Complete(make([]byte, 0, len(encoded)+len(info)+64), encoded, info, ""), nil
}
