package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"unicode/utf8"
)

// object is the shape of a JSON object in Block Kit: the members that it may have, and the most characters of each
// that is a text. See docs.slack.dev/reference/block-kit.
type object struct {
	text    map[string]int // texts, and their limits
	objects map[string]int // texts of the type plain_text or mrkdwn, and their limits
	plain   []string       // those of objects that must be plain_text
	other   []string
	needs   []string
}

var shapes = map[string]object{
	"header": {objects: map[string]int{"text": 150}, plain: []string{"text"}, text: map[string]int{"block_id": 255},
		needs: []string{"text"}},
	"section": {objects: map[string]int{"text": 3000}, text: map[string]int{"block_id": 255},
		other: []string{"fields", "accessory", "expand"}},
	"context": {text: map[string]int{"block_id": 255}, other: []string{"elements"}, needs: []string{"elements"}},
	"actions": {text: map[string]int{"block_id": 255}, other: []string{"elements"}, needs: []string{"elements"}},
	"input": {objects: map[string]int{"label": 2000, "hint": 2000}, plain: []string{"label", "hint"},
		text: map[string]int{"block_id": 255}, other: []string{"element", "optional", "dispatch_action"},
		needs: []string{"label", "element"}},
	"button": {objects: map[string]int{"text": 75}, plain: []string{"text"},
		text:  map[string]int{"action_id": 255, "value": 2000, "url": 3000, "style": 7, "accessibility_label": 75},
		other: []string{"confirm"}, needs: []string{"text"}},
	"plain_text_input": {objects: map[string]int{"placeholder": 150}, plain: []string{"placeholder"},
		text:  map[string]int{"action_id": 255, "initial_value": 3000},
		other: []string{"multiline", "min_length", "max_length", "focus_on_load"}},
	"static_select": {objects: map[string]int{"placeholder": 150}, plain: []string{"placeholder"},
		text: map[string]int{"action_id": 255}, other: []string{"options", "initial_option", "focus_on_load"},
		needs: []string{"options"}},
	"multi_static_select": {objects: map[string]int{"placeholder": 150}, plain: []string{"placeholder"},
		text:  map[string]int{"action_id": 255},
		other: []string{"options", "initial_options", "max_selected_items", "focus_on_load"}, needs: []string{"options"}},
	"datepicker": {objects: map[string]int{"placeholder": 150}, plain: []string{"placeholder"},
		text: map[string]int{"action_id": 255, "initial_date": 10}, other: []string{"focus_on_load"}},
}

var modal = object{objects: map[string]int{"title": 24, "submit": 24, "close": 24},
	plain: []string{"title", "submit", "close"},
	text:  map[string]int{"callback_id": 255, "private_metadata": 3000, "external_id": 255},
	other: []string{"blocks", "clear_on_close", "notify_on_close"}, needs: []string{"title", "blocks"}}

// check reports what Slack would refuse in an object of a shape.
func (o object) check(of map[string]any) error {
	for _, name := range o.needs {
		if of[name] == nil {
			return fmt.Errorf("missing %s", name)
		}
	}
	for name, v := range of {
		if name == "type" || slices.Contains(o.other, name) {
			continue
		}
		if most, ok := o.text[name]; ok {
			if text, isText := v.(string); !isText || utf8.RuneCountInString(text) > most {
				return fmt.Errorf("%s must have at most %d characters", name, most)
			}
			continue
		}
		most, ok := o.objects[name]
		if !ok {
			return fmt.Errorf("unknown member %s", name)
		}
		if err := checkText(v, most, slices.Contains(o.plain, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkText(v any, most int, plain bool) error {
	of, _ := v.(map[string]any)
	text, _ := of["text"].(string)
	kind, _ := of["type"].(string)
	for name := range of {
		if !slices.Contains([]string{"type", "text", "emoji", "verbatim"}, name) {
			return fmt.Errorf("unknown member %s", name)
		}
	}
	switch {
	case kind != "plain_text" && (plain || kind != "mrkdwn"):
		return fmt.Errorf("the type %q is not taken", kind)
	case kind == "plain_text" && of["verbatim"] != nil, kind == "mrkdwn" && of["emoji"] != nil:
		return errors.New("a member of the other type")
	case text == "" || utf8.RuneCountInString(text) > most:
		return fmt.Errorf("must have 1 to %d characters", most)
	}
	return nil
}

func checkBlocks(raw json.RawMessage, inView bool) error {
	var blocks []map[string]any
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return err
	}
	most := 50
	if inView {
		most = 100
	}
	if len(blocks) > most {
		return fmt.Errorf("more than %d blocks", most)
	}
	ids := make(map[any]bool)
	for i, b := range blocks {
		kind, _ := b["type"].(string)
		shape, ok := shapes[kind]
		if !ok || !slices.Contains([]string{"header", "section", "context", "actions", "input"}, kind) ||
			kind == "input" && !inView {
			return fmt.Errorf("block %d: the type %q", i, kind)
		}
		err := shape.check(b)
		if err == nil {
			err = checkParts(kind, b)
		}
		if id := b["block_id"]; err == nil && id != nil && id != "" {
			if ids[id] {
				err = errors.New("the block_id is not unique")
			}
			ids[id] = true
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func checkParts(kind string, b map[string]any) error {
	list := func(name string, most int, check func(map[string]any) error) error {
		all, _ := b[name].([]any)
		if len(all) == 0 || len(all) > most {
			return fmt.Errorf("%s: want 1 to %d", name, most)
		}
		for _, v := range all {
			of, _ := v.(map[string]any)
			if err := check(of); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	switch kind {
	case "section":
		if b["fields"] == nil {
			if b["text"] == nil {
				return errors.New("text or fields are required")
			}
			return nil
		}
		return list("fields", 10, func(of map[string]any) error { return checkText(of, 2000, false) })
	case "context":
		return list("elements", 10, func(of map[string]any) error { return checkText(of, 3000, false) })
	case "actions":
		ids := make(map[any]bool)
		return list("elements", 25, func(of map[string]any) error {
			if ids[of["action_id"]] {
				return errors.New("the action_id is not unique")
			}
			ids[of["action_id"]] = true
			return checkElement(of, "button")
		})
	case "input":
		of, _ := b["element"].(map[string]any)
		return checkElement(of, "plain_text_input", "static_select", "multi_static_select", "datepicker")
	}
	return nil
}

func checkElement(of map[string]any, kinds ...string) error {
	kind, _ := of["type"].(string)
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("the element %q", kind)
	}
	if err := shapes[kind].check(of); err != nil {
		return err
	}
	if link, ok := of["url"].(string); ok {
		if u, err := url.Parse(link); err != nil || u.Host == "" {
			return errors.New("url is not valid")
		}
	}
	if kind != "static_select" && kind != "multi_static_select" {
		return nil
	}
	options, _ := of["options"].([]any)
	if len(options) == 0 || len(options) > 100 {
		return errors.New("options: want 1 to 100")
	}
	shape := object{text: map[string]int{"value": 150}, objects: map[string]int{"text": 75}, plain: []string{"text"},
		needs: []string{"text", "value"}}
	for _, v := range options {
		option, _ := v.(map[string]any)
		if err := shape.check(option); err != nil {
			return fmt.Errorf("options: %w", err)
		}
	}
	return nil
}

func checkView(raw json.RawMessage) error {
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if v["type"] != "modal" {
		return errors.New("the type is not modal")
	}
	if err := modal.check(v); err != nil {
		return err
	}
	blocks := blocksOf(raw)
	if len(walk(blocks, "plain_text_input")) > 0 && v["submit"] == nil {
		return errors.New("submit is required where there are inputs")
	}
	return checkBlocks(blocks, true)
}
