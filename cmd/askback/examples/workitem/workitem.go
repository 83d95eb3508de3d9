// Package workitem is an example of a tool that asks as its data demands: update_work_item changes a work item in
// SQLite, and asks for what the rules of its process (process.json) require beyond what the caller gave.
package workitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type args struct {
	WorkItemID int               `json:"workItemId" jsonschema:"the id of the work item"`
	Fields     map[string]string `json:"fields" jsonschema:"the new values by the fields' names, such as System.State"`
}

type resolution struct {
	Chosen string `json:"resolution" jsonschema:"Resolution type for this bug" enum:"Fixed|Won't Fix|Duplicate|By Design"`
}

type original struct {
	DuplicateOfID float64 `json:"duplicateOfId" jsonschema:"Work item ID of the original bug"`
}

// Register adds the tool update_work_item to s. It works on store, which must stay open as long as s serves.
//
//revive:disable-next-line:cognitive-complexity a tool is one straight line, which the example shows
func Register(s *askback.Server, store *Store) {
	process := bundledProcess()
	tool := &mcp.Tool{Name: "update_work_item", Description: "Change fields of a work item"}

	askback.AddTool(s, tool, func(ctx context.Context, call *askback.Call, in args) (string, error) {
		// First what needs no answer: nobody is to be asked for the sake of a call that fails anyway.
		item, err := store.Item(ctx, in.WorkItemID)
		if err != nil {
			return "", err
		}
		if err := process.check(in.Fields); err != nil {
			return "", err
		}

		change := maps.Clone(in.Fields)
		var duplicated *Item
		for _, rule := range process.Rules {
			if !rule.unmet(item, change) {
				continue
			}
			switch rule.Require {
			case resolutionField:
				answer, err := askback.Elicit[resolution](call, rule.Ask.Key, rule.message(item))
				if err != nil {
					return "", unchanged(item, err)
				}
				change[resolutionField] = answer.Chosen

			case duplicateOf:
				answer, err := askback.Elicit[original](call, rule.Ask.Key, rule.message(item))
				if err != nil {
					return "", unchanged(item, err)
				}
				if duplicated, err = store.original(ctx, item, answer.DuplicateOfID); err != nil {
					return "", err
				}

			default:
				return "", fmt.Errorf("%s must come with %s in this change; call again with both", rule.When.Field, rule.Require)
			}
		}

		err = call.Do(ctx, "update-fields", func(ctx context.Context) error {
			return store.Update(ctx, write(call, "update-fields"), item.ID, change)
		})
		if err != nil {
			return "", err
		}
		if duplicated != nil {
			err = call.Do(ctx, "create-link", func(ctx context.Context) error {
				return store.CreateLink(ctx, write(call, "create-link"), item.ID, duplicateOf, duplicated.ID)
			})
			if err != nil {
				return "", err
			}
		}

		return process.summary(item, change, duplicated), nil
	})
}

// write stamps a change made by call. The idempotency key reaches the store with it: should an instance die between
// changing the store and recording the step, the next attempt changes nothing twice.
func write(call *askback.Call, step string) Write {
	return Write{Step: call.IdempotencyKey(step), By: cmp.Or(call.Principal(), "anonymous"), At: time.Now()}
}

// unchanged tells of a question declined that it left the item as it was.
func unchanged(item Item, err error) error {
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return fmt.Errorf("%s was not changed: %w", item, declined)
	}
	return err
}
