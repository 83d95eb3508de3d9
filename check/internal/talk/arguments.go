package talk

import (
	"fmt"
	"maps"
	"slices"
)

// A NotJudged is the reason why nothing is proved, and the remedy that would help.
type NotJudged struct{ Why, Remedy string }

// NoVerdict returns the error for that reason. The remedy may be empty.
func NoVerdict(why, remedy string) *NotJudged { return &NotJudged{why, remedy} }

func (n *NotJudged) Error() string { return n.Why }

// Fill gives a call arguments that no call has used up: a text of its own and, if the plan has such, the values of a
// row. A server may act once for them.
func (cl *Client) Fill(c *Call) error {
	t := c.Target
	c.Text, c.Arguments, c.Row, c.Lent = cl.Canary(), nil, nil, nil
	if t.Make == nil {
		return nil
	}
	c.Arguments = t.Make(c.Text)
	for _, value := range c.Arguments {
		cl.noteTail(value, c.Text)
	}
	if text, ok := c.Arguments[t.Free].(string); ok {
		c.Text = text
	}
	if len(t.Rows) == 0 {
		return nil
	}
	at := slices.IndexFunc(t.Rows, func(w *Row) bool { return !w.spent })
	if at < 0 {
		return &NotJudged{fmt.Sprintf("its %d values of useUp are used up", len(t.Rows)),
			"more values of useUp in the file: each call that ends needs one"}
	}
	c.Row = t.Rows[at]
	t.Rows = append(slices.Delete(t.Rows, at, at+1), c.Row) // a call that does not end leaves them for later
	maps.Copy(c.Arguments, c.Row.Values)
	if value, ok := c.Row.Values[t.Free]; ok {
		c.Text = fmt.Sprint(value)
	}
	return nil
}

// spend notes that a call has ended, so that the values in its state, or else its arguments, are used up. If it is the
// other way round, the next call with them is refused.
func (c *Call) spend() {
	switch {
	case c.Lent != nil:
		c.Lent.spent = true
	case c.Row != nil:
		c.Row.spent = true
	}
}
