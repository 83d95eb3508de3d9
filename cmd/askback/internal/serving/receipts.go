package serving

import (
	"context"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/inbox/receipt"
)

// Receipts returns what signs receipts with the keys of a file, once it has been tried. Without a file it returns nil.
func Receipts(ctx context.Context, file string) (askback.ReceiptSigner, error) {
	if file == "" {
		return nil, nil
	}
	keys := receipt.File(file)
	if _, err := keys.Sign(ctx, []byte("{}")); err != nil {
		return nil, cli.Usagef("--receipts: %w; 'askback keys new --receipts %s' makes it", err, file)
	}
	return keys, nil
}
