// Package toolscmd lists what a server offers.
package toolscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
)

// Command returns 'askback tools'.
func Command() *cobra.Command {
	return conversation.Command(&cobra.Command{
		Use:   "tools TARGET",
		Short: "List a server's tools, prompts and resources",
		Long: `List the tools of the server at TARGET, a URL or a command line in one argument,
with their arguments, and its prompts and resources, if it has any. --output
json prints an object with the members tools, prompts, resources and
resourceTemplates. If the list of tools cannot be read, the command fails. For
every other list it prints a warning.`,
		Example: `  askback tools http://127.0.0.1:8080/mcp
  askback tools 'npx -y @modelcontextprotocol/server-everything'`,
	}, conversation.ConnectOnly, func(c *conversation.Conversation, args []string) error {
		return c.Hold(args[0], "the server", func(ctx context.Context, s *client.Session) (func() error, error) {
			o, err := listOffer(ctx, c, s)
			return func() error { return c.Show(o, o.text()) }, err
		})
	})
}

// offer has the lists of a server. None of them is nil.
type offer struct {
	Tools     []*mcp.Tool             `json:"tools"`
	Prompts   []*mcp.Prompt           `json:"prompts"`
	Resources []*mcp.Resource         `json:"resources"`
	Templates []*mcp.ResourceTemplate `json:"resourceTemplates"`
}

// listOffer reads the server's lists. The lists of prompts and resources are read if the server has declared them.
func listOffer(ctx context.Context, c *conversation.Conversation, s *client.Session) (*offer, error) {
	o := &offer{Prompts: []*mcp.Prompt{}, Resources: []*mcp.Resource{}, Templates: []*mcp.ResourceTemplate{}}
	has := new(mcp.ServerCapabilities)
	if res := s.SDK().InitializeResult(); res != nil {
		has = cmp.Or(res.Capabilities, has)
	}
	var err error
	o.Tools, err = conversation.List[mcp.Tool](ctx, c, s, "tools/list")
	if err != nil && !(isUnknownMethod(err) && has.Tools == nil) {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	if has.Prompts != nil {
		o.Prompts, err = conversation.List[mcp.Prompt](ctx, c, s, "prompts/list")
		warnOfList(ctx, c, "prompts", err)
	}
	if has.Resources != nil {
		o.Resources, err = conversation.List[mcp.Resource](ctx, c, s, "resources/list")
		warnOfList(ctx, c, "resources", err)
		o.Templates, err = conversation.List[mcp.ResourceTemplate](ctx, c, s, "resources/templates/list")
		warnOfList(ctx, c, "resource templates", err)
	}
	return o, context.Cause(ctx)
}

// warnOfList tells why a list may be incomplete. A server that does not know the method has no such list.
func warnOfList(ctx context.Context, c *conversation.Conversation, list string, err error) {
	if err != nil && ctx.Err() == nil && !isUnknownMethod(err) {
		c.Note("warning: listing the %s: %v", list, cli.FaultText(err))
	}
}

func isUnknownMethod(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == jsonrpc.CodeMethodNotFound
}

// text shows the lists to people. The tools have a heading if they are not alone.
func (o *offer) text() string {
	var parts []string
	section := func(heading string, items []string) {
		if len(items) > 0 {
			parts = append(parts, heading+strings.Join(items, "\n"))
		}
	}
	var tools, prompts, resources []string
	for _, t := range o.Tools {
		tools = append(tools, item(t.Name, t.Description)+arguments.ParseSchema(t.InputSchema).List())
	}
	for _, p := range o.Prompts {
		prompts = append(prompts, item(p.Name, cmp.Or(p.Description, p.Title))+arguments.PromptSchema(p).List())
	}
	for _, r := range o.Resources {
		resources = append(resources, resourceItem(r.URI, r.Name, cmp.Or(r.Description, r.Title), r.MIMEType))
	}
	for _, r := range o.Templates {
		resources = append(resources, resourceItem(r.URITemplate, r.Name, cmp.Or(r.Description, r.Title), r.MIMEType))
	}
	heading := ""
	if len(prompts)+len(resources) > 0 {
		heading = "Tools, for 'askback call':\n\n"
	}
	section(heading, tools)
	section("Prompts, for 'askback prompt':\n\n", prompts)
	section("Resources, for 'askback read':\n\n", resources)
	if parts == nil {
		return "no tools, prompts or resources\n"
	}
	return strings.Join(parts, "\n")
}

func item(name, about string) string {
	text := cli.HarmlessLine(name, 2000) + "\n"
	if about != "" {
		text += cli.Wrap(cli.Harmless(about), "  ")
	}
	return text
}

func resourceItem(uri, name, about, mimeType string) string {
	text := item(uri, cmp.Or(about, name))
	if mimeType != "" {
		text += "    " + cli.HarmlessLine(mimeType, 100) + "\n"
	}
	return text
}
