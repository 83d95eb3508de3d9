package slack

import (
	"encoding/json"
	"strings"

	"github.com/slack-go/slack"

	"github.com/askback-mcp/askback/desk/chat"
)

// The limits of Slack, in characters. See docs.slack.dev/reference/block-kit/blocks.
const (
	mostSection  = 3000
	mostHeader   = 150
	mostField    = 2000
	mostFields   = 10
	mostValue    = 2000
	mostLink     = 3000
	mostMetadata = 3000
)

// cut keeps a text to a limit. It counts as Slack may: in UTF-16, with & < and > as they are escaped.
func cut(text string, most int) string {
	const end = "…"
	n, place := 0, -1
	for i, r := range text {
		size := 1
		switch {
		case r == '&':
			size = len("&amp;")
		case r == '<', r == '>':
			size = len("&lt;")
		case r > 0xffff:
			size = 2
		}
		if place < 0 && n+size > most-1 {
			place = i
		}
		if n += size; n > most {
			return text[:place] + end
		}
	}
	return text
}

// plain is a text in which Slack knows no mentions, links, styles and emoji.
func plain(text string, most int) *slack.TextBlockObject {
	if strings.TrimSpace(text) == "" {
		text = "–" // Slack takes no empty text
	}
	return slack.NewTextBlockObject(slack.PlainTextType, cut(text, most), false, false)
}

func section(text string) *slack.SectionBlock {
	return slack.NewSectionBlock(plain(text, mostSection), nil, nil)
}

func context_(text string) *slack.ContextBlock {
	return slack.NewContextBlock("", plain(text, mostField))
}

func factOf(m *chat.Message, name string) string {
	for _, f := range m.Facts {
		if f.Name == name {
			return f.Name + ": " + f.Value
		}
	}
	return m.Standing
}

// summary is what a notification shows. It has nothing of the caller's.
func summary(m *chat.Message) string {
	return cut(m.Title+": "+m.Standing, mostSection)
}

// What a button and a form carry.
type reference struct {
	Name   string  `json:"n"`
	Key    string  `json:"k"`
	Ask    bool    `json:"ask,omitempty"`
	Action string  `json:"a,omitempty"`
	Ref    string  `json:"ref,omitempty"`
	Fields []value `json:"f,omitempty"`
}

func (r reference) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // strings and booleans can be encoded
	}
	return string(raw)
}

// The names of what is pressed.
const (
	pressAccept  = "askback_accept"
	pressDecline = "askback_decline"
	pressPage    = "askback_page"
	formAnswer   = "askback_answer"
)

func blocksOf(m *chat.Message) []slack.Block {
	blocks := []slack.Block{slack.NewHeaderBlock(plain(m.Title, mostHeader)), section(m.Text)}
	var fields []*slack.TextBlockObject
	for _, f := range m.Facts[:min(len(m.Facts), mostFields)] {
		fields = append(fields, plain(f.Name+"\n"+f.Value, mostField))
	}
	if len(fields) > 0 {
		blocks = append(blocks, slack.NewSectionBlock(nil, fields, nil))
	}
	if m.Preview != "" {
		blocks = append(blocks, section(m.Preview))
	}
	if m.Arguments != "" {
		blocks = append(blocks, section(m.Arguments))
	}
	blocks = append(blocks, context_(m.Standing))
	if buttons := buttonsOf(m); len(buttons) > 0 {
		blocks = append(blocks, slack.NewActionBlock("askback", buttons...))
	}
	return blocks
}

func buttonsOf(m *chat.Message) (all []slack.BlockElement) {
	ref := reference{Name: m.Name, Key: m.Key, Ask: m.Form != nil}
	// A form that Slack cannot show, and a page, are answered where the link leads.
	if m.Open && !m.PageOnly && len(reference{m.Name, m.Key, true, "", "", nil}.String()) <= mostValue {
		if _, ok := formOf(m, reference{}); ok || m.Form == nil {
			all = append(all, slack.NewButtonBlockElement(pressAccept, ref.String(), plain("Accept", 75)).
				WithStyle(slack.StylePrimary))
		}
		ref.Ask = true
		all = append(all, slack.NewButtonBlockElement(pressDecline, ref.String(), plain("Decline", 75)).
			WithStyle(slack.StyleDanger))
	}
	if m.Link != "" && len(m.Link) <= mostLink {
		all = append(all, slack.NewButtonBlockElement(pressPage, "", plain("Open the page", 75)).WithURL(m.Link))
	}
	return all
}
