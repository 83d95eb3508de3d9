package calls

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// finding says how arguments violate the tool's input schema: both are empty if they fit.
type finding struct {
	Unable string `json:"unable,omitempty"` // why the schema cannot be applied
	Misfit string `json:"misfit,omitempty"` // why they do not fit
}

// judge compares arguments with the tool's input schema. Nil asks about the schema alone.
func (c *Call) judge(ctx context.Context, arguments []byte) (*finding, error) {
	select { // one at a time, so that the schemas of one server do not take the memory of the others
	case c.compiling <- struct{}{}:
		defer func() { <-c.compiling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	err := c.fits(ctx, arguments)
	_, unable := errors.AsType[*foreign.BoundError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case unable:
		c.Log.WarnContext(ctx, "bridge: edited arguments of a tool cannot be checked", "server", c.Title, "tool", c.Name,
			"call", c.Host.ID(), "error", err)
		return &finding{Unable: err.Error()}, nil
	case err != nil:
		return &finding{Misfit: err.Error()}, nil
	}
	return new(finding), nil
}

// fits returns the reason why arguments do not fit the tool's input schema, which is compiled for that and dropped.
func (c *Call) fits(ctx context.Context, arguments []byte) error {
	raw, err := json.Marshal(c.Schema)
	if err != nil {
		return err
	}
	schema, err := foreign.Compile(ctx, raw)
	switch {
	case err != nil || arguments == nil:
		return err
	case strictjson.TypeOf(arguments) != strictjson.TypeObject:
		return errors.New("they are not a JSON object")
	}
	return schema.Fits(ctx, arguments)
}
