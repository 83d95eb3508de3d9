package slack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// The limits of a form in Slack.
const (
	mostInputs     = 20
	mostOptions    = 100
	mostOption     = 75  // characters of the text of an option
	mostOptionID   = 150 // and of its value
	mostLabel      = 2000
	mostHint       = 2000
	mostInput      = 3000
	mostViewTitle  = 24
	mostReason     = 1000
	reasonBlock    = "reason"
	valueAction    = "value"
	longText       = 200
	mostErrorWords = 300
)

// value is one value of a form, and how Slack sends it.
type value struct {
	Name string `json:"n"`
	Kind string `json:"t"` // "text", "number", "boolean", "one", "many" or "date"
}

// formOf returns the inputs of a form, if Slack can show it, and the reference with the values that they send.
func formOf(m *chat.Message, ref reference) (blocks []slack.Block, ok bool) {
	_, blocks, ok = inputsOf(m, ref)
	return blocks, ok
}

func inputsOf(m *chat.Message, ref reference) (reference, []slack.Block, bool) {
	schema, err := form.Parse(m.Form)
	if err != nil {
		return ref, nil, false
	}
	properties := schema.Properties()
	if len(properties) > mostInputs {
		return ref, nil, false
	}
	var blocks []slack.Block
	for i, p := range properties {
		initial := strictjson.Get(m.Values, p.Name)
		if m.Values == nil {
			initial = p.Default
		}
		v, element, ok := elementOf(p, initial)
		title := cmp.Or(strings.TrimSpace(p.Title), p.Name)
		if !ok || form.AsksForSecret(p.Name, p.Title, p.Format) || utf8.RuneCountInString(title) > mostLabel {
			return ref, nil, false // the page warns of a form that asks for a secret
		}
		var hint *slack.TextBlockObject
		if p.Description != "" {
			hint = plain(foreign.Shown(p.Description), mostHint)
		}
		input := slack.NewInputBlock("v"+strconv.Itoa(i), plain(foreign.Shown(title), mostLabel), hint, element)
		input.Optional = !p.Required
		blocks = append(blocks, input)
		ref.Fields = append(ref.Fields, v)
	}
	sized := ref
	sized.Name, sized.Key, sized.Ref = cmp.Or(ref.Name, m.Name), cmp.Or(ref.Key, m.Key), strings.Repeat("x", 64)
	return ref, blocks, len(sized.String()) <= mostMetadata
}

// elementOf returns what a person fills in for a property, unless Slack has nothing that can take all of its values.
func elementOf(p *form.Property, initial []byte) (v value, element slack.BlockElement, ok bool) {
	v.Name = p.Name
	if p.Options != nil || p.Type == "boolean" {
		return choiceOf(p, initial)
	}
	switch {
	case p.Type == "string" && p.Format == "date":
		v.Kind = "date"
		e := slack.NewDatePickerBlockElement(valueAction)
		if text, isText := strictjson.String(initial); isText {
			e.InitialDate = text
		}
		return v, e, true
	case p.Type == "string" && p.Format != "date-time":
		v.Kind = "text"
	case p.Type == "integer", p.Type == "number":
		v.Kind = "number"
	default:
		return v, nil, false
	}
	e := slack.NewPlainTextInputBlockElement(nil, valueAction)
	if e.InitialValue = string(initial); v.Kind == "text" {
		e.InitialValue, _ = strictjson.String(initial)
		high, err := strconv.Atoi(p.High)
		e.Multiline = err == nil && high >= longText || strings.Contains(e.InitialValue, "\n")
	}
	// What a person does not see as it is must not be accepted without being seen.
	return v, e, e.InitialValue == cut(e.InitialValue, mostInput) && e.InitialValue == foreign.Shown(e.InitialValue)
}

func choiceOf(p *form.Property, initial []byte) (v value, element slack.BlockElement, ok bool) {
	v = value{p.Name, "one"}
	given := p.Options
	if p.Type == "boolean" {
		v.Kind, given = "boolean", []form.Option{{Value: "true", Title: "Yes"}, {Value: "false", Title: "No"}}
	}
	picked := map[string]bool{string(initial): true}
	if text, isText := strictjson.String(initial); isText {
		picked = map[string]bool{text: true}
	}
	if p.Type == "array" {
		v.Kind = "many"
		var all []string
		if json.Unmarshal(initial, &all) == nil {
			for _, text := range all {
				picked[text] = true
			}
		}
	}
	var options, chosen []*slack.OptionBlockObject
	titles := make(map[string]bool)
	for _, o := range given {
		title := foreign.Shown(o.Title)
		if o.Value == "" || cut(o.Value, mostOptionID) != o.Value || titles[cut(title, mostOption)] {
			return v, nil, false
		}
		titles[cut(title, mostOption)] = true
		option := slack.NewOptionBlockObject(o.Value, plain(title, mostOption), nil)
		if options = append(options, option); picked[o.Value] {
			chosen = append(chosen, option)
		}
	}
	if len(options) == 0 || len(options) > mostOptions {
		return v, nil, false
	}
	if v.Kind == "many" {
		e := slack.NewOptionsMultiSelectBlockElement(slack.MultiOptTypeStatic, nil, valueAction, options...)
		e.InitialOptions = chosen
		return v, e, true
	}
	e := slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, nil, valueAction, options...)
	if len(chosen) == 1 {
		e.InitialOption = chosen[0]
	}
	return v, e, true
}

// dialog asks for the rest of an answer: the values of the form, and a reason.
func dialog(m *chat.Message, ref reference) (slack.ModalViewRequest, bool) {
	title, blocks := "Decline", []slack.Block{section(m.Text)}
	if ref.Action == "accept" {
		title = "Accept"
		with, inputs, ok := inputsOf(m, ref)
		if !ok {
			return slack.ModalViewRequest{}, false
		}
		ref, blocks = with, append(blocks, inputs...)
	}
	reason := slack.NewPlainTextInputBlockElement(nil, valueAction).WithMaxLength(mostReason)
	reason.Multiline = true
	input := slack.NewInputBlock(reasonBlock, plain("Reason", mostLabel), nil, reason)
	input.Optional = true
	return slack.ModalViewRequest{
		Type: slack.VTModal, Title: plain(title, mostViewTitle), Submit: plain(title, mostViewTitle),
		Close: plain("Back", mostViewTitle), CallbackID: formAnswer, PrivateMetadata: ref.String(),
		Blocks: slack.Blocks{BlockSet: append(blocks, input)},
	}, true
}

// notice is a form that only tells something.
func notice(text string) *slack.ModalViewRequest {
	return &slack.ModalViewRequest{Type: slack.VTModal, Title: plain("Not answered", mostViewTitle),
		Close: plain("Close", mostViewTitle), Blocks: slack.Blocks{BlockSet: []slack.Block{section(text)}}}
}

// entry is what a person has filled in.
type entry struct {
	Value    *string  `json:"value"`
	Date     *string  `json:"selected_date"`
	Option   *option  `json:"selected_option"`
	Selected []option `json:"selected_options"`
}

type option struct {
	Value string `json:"value"`
}

// contentOf is what the values of a form amount to, as JSON. The desk checks it against the form.
func contentOf(fields []value, state map[string]map[string]entry) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		raw := jsonOf(f, state["v"+strconv.Itoa(i)][valueAction])
		if raw == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(strictjson.AppendString(nil, f.Name))
		b.WriteByte(':')
		b.Write(raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// jsonOf is one value, or nil if the person has left it out.
func jsonOf(f value, e entry) []byte {
	text := e.Value
	if f.Kind == "date" {
		text = e.Date
	}
	switch f.Kind {
	case "many":
		if e.Selected == nil {
			return nil
		}
		all := []byte{'['}
		for i, o := range e.Selected {
			if i > 0 {
				all = append(all, ',')
			}
			all = strictjson.AppendString(all, o.Value)
		}
		return append(all, ']')
	case "one", "boolean":
		if e.Option == nil {
			return nil
		}
		text = &e.Option.Value
	}
	switch {
	case text == nil || *text == "":
		return nil
	case f.Kind == "number":
		if trimmed := strings.TrimSpace(*text); strictjson.Check([]byte(trimmed), 1) == nil &&
			strictjson.TypeOf([]byte(trimmed)) == strictjson.TypeNumber {
			return []byte(trimmed)
		}
	case f.Kind == "boolean" && (*text == "true" || *text == "false"):
		return []byte(*text)
	}
	return strictjson.AppendString(nil, *text)
}
