package inboxcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// inboxFlags are the flags of the inbox. Each command has some of them.
type inboxFlags struct {
	reach  reach
	as     string
	groups []string
	reason string

	olderThan  time.Duration // list
	tools      []string
	byDeadline bool
	newest     bool
	search     string
	answered   bool
	began      bool
	where      string   // how a command line names the store; empty if it does not
	stores     []string // the one that is listed, and those after it
	single     bool     // there is only one
	shown      int      // the stores from which something was listed

	accept           string // answer
	decline, dismiss bool
}

// reach says which stores a command uses when its command line names none, and there are several.
type reach int

const (
	namedTask   reach = iota // the one that has the task NAME
	everyStore               // all, one after the other
	singleStore              // none: somebody must choose
)

// register completes a command of the inbox: do gets a desk on the store, and the arguments after the store.
func (f *inboxFlags) register(cmd *cobra.Command, do inboxAction) {
	cmd.Flags().Bool("json", false, "print JSON, an object on each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.at(cmd, args, do) }
}

type inboxAction func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, args []string) error

func (f *inboxFlags) registerPerson(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.as, "as", "", "`NAME` of the person (default: you)")
	cmd.Flags().StringSliceVar(&f.groups, "groups", nil, "`NAMES` of the person's groups, such as release,oncall")
}

// at opens a desk on the store that the first argument names. Without one it opens the stores in the default place. It
// calls do with the desk and the other arguments.
func (f *inboxFlags) at(cmd *cobra.Command, args []string, do inboxAction) error {
	var stores []string
	if storage.Leads(args) {
		stores, args = args[:1], args[1:]
		if f.where = "STORE"; !strings.Contains(stores[0], "@") { // it may have a password
			f.where = cli.Harmless(cli.ForeignQuote(stores[0]))
		}
	} else {
		var err error
		if stores, err = storage.Defaults(); err != nil {
			return err
		}
	}
	if len(stores) > 1 {
		switch f.reach {
		case singleStore:
			return cli.Usagef("there are %d stores; give one of them as STORE:\n  %s", len(stores),
				strings.Join(stores, "\n  "))
		case namedTask:
			store, err := storeOfTask(cmd, stores, args[0])
			if err != nil {
				return err
			}
			stores = []string{store}
		}
	}
	var failed []error
	f.stores, f.single = stores, len(stores) == 1
	for _, store := range stores {
		failed = append(failed, storage.AtDesk(cmd, store, func(ctx context.Context, d *desk.Desk, asJSON bool) error {
			return do(ctx, cmd, d, asJSON, args)
		}))
		f.stores = f.stores[1:]
	}
	return errors.Join(failed...)
}

// storeOfTask returns the store that has the questions of a task. If none has them, any of the stores says so.
func storeOfTask(cmd *cobra.Command, stores []string, name string) (string, error) {
	var has []string
	says := stores[0] // what is wrong with the name
	for _, store := range stores {
		if err := storage.AtDesk(cmd, store, func(ctx context.Context, d *desk.Desk, _ bool) error {
			questions, err := d.Questions(ctx, name, nil)
			if len(questions) > 0 {
				has = append(has, store)
			} else if !errors.Is(err, task.ErrNotFound) {
				says = store
			}
			return nil
		}); err != nil {
			return "", fmt.Errorf("%s: %w", store, err)
		}
	}
	switch len(has) {
	case 0:
		return says, nil
	case 1:
		return has[0], nil
	}
	return "", cli.Usagef("%d stores have a task whose name begins with %s; write one of them before the name:\n  %s",
		len(has), cli.HarmlessLine(name, 60), strings.Join(has, "\n  "))
}

// person returns the person for whom the command acts, and the channel of the answers, which names the system's user as
// 'askback serve' names its caller.
func (f *inboxFlags) person() (p desk.Person, channel string) {
	self := cli.DefaultCaller()
	return desk.Person{Name: cmp.Or(f.as, self), Groups: f.groups}, "command (" + self + ")"
}
