package workitem

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The names that code, and not only process.json, knows.
const (
	stateField      = "System.State"
	resolutionField = "Custom.Resolution"
	duplicateOf     = "Duplicate Of" // a link, but required in the way a field is
)

// process lists the fields of a work item, and the rules that their changes obey.
type process struct {
	Fields []field `json:"fields"`
	Rules  []rule  `json:"rules"`
}

type field struct {
	Name     string   `json:"name"`
	Label    string   `json:"label"`
	Values   []string `json:"values"`   // none: any text
	Required bool     `json:"required"` // may not be cleared; a field with values never may
}

// rule says: when a change gives a field a value, the change must come with something more, to be asked for.
type rule struct {
	When struct {
		Type    string `json:"type"` // of the work item; none: any
		Field   string `json:"field"`
		Becomes string `json:"becomes"`
	} `json:"when"`
	Require string `json:"require"` // a field, or duplicateOf
	Ask     struct {
		Key     string `json:"key"`
		Message string `json:"message"` // {item} stands for the work item
	} `json:"ask"`
}

// unmet reports whether change triggers r without bringing what r requires.
//
// It looks at the change and never at the values stored. A call's last round may be repeated after its update went
// through, and must then find the rules as it found them before: triggered, and met by the answers.
func (r rule) unmet(item Item, change map[string]string) bool {
	return (r.When.Type == "" || r.When.Type == item.Type) &&
		change[r.When.Field] == r.When.Becomes &&
		change[r.Require] == ""
}

func (r rule) message(item Item) string {
	return strings.ReplaceAll(r.Ask.Message, "{item}", item.String())
}

//go:embed process.json
var processJSON []byte

// bundledProcess returns the process of the embedded data.
func bundledProcess() *process {
	p, err := parseProcess(processJSON)
	if err != nil {
		panic("workitem: process.json: " + err.Error()) // a fault of the build
	}
	return p
}

func parseProcess(data []byte) (*process, error) {
	p := new(process)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, err
	}
	keys := make(map[string]bool)
	for i, r := range p.Rules {
		if err := p.check(map[string]string{r.When.Field: r.When.Becomes}); err != nil {
			return nil, fmt.Errorf("rule %d can never apply: %w", i+1, err)
		}
		if _, known := p.field(r.Require); !known && r.Require != duplicateOf {
			return nil, fmt.Errorf("rule %d requires %q, which is not a field", i+1, r.Require)
		}
		if r.Ask.Key == "" || r.Ask.Message == "" || keys[r.Ask.Key] {
			return nil, fmt.Errorf("rule %d needs a message, and a key of its own", i+1)
		}
		keys[r.Ask.Key] = true
		// One pass over the rules finds all that apply only if none depends on what a later one adds.
		for _, later := range p.Rules[i:] {
			if later.Require == r.When.Field {
				return nil, fmt.Errorf("rule %d must come after the one that requires %s", i+1, r.When.Field)
			}
		}
	}
	return p, nil
}

func (p *process) field(name string) (field, bool) {
	i := slices.IndexFunc(p.Fields, func(f field) bool { return f.Name == name })
	if i < 0 {
		return field{}, false
	}
	return p.Fields[i], true
}

// maxValue is the longest value of a field, in characters.
const maxValue = 255

// check refuses a change to fields that do not exist or to values that they cannot have.
func (p *process) check(change map[string]string) error {
	if len(change) == 0 {
		return fmt.Errorf("fields is empty; name at least one of %s", p.fieldNames())
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		f, known := p.field(name)
		if !known {
			return fmt.Errorf("unknown field %s; known fields are %s", quote(name), p.fieldNames())
		}
		value := change[name]
		switch {
		case f.Values != nil && !slices.Contains(f.Values, value):
			return fmt.Errorf("%s cannot be %s; it is one of %s", name, quote(value), strings.Join(f.Values, ", "))
		case f.Required && strings.TrimSpace(value) == "":
			return fmt.Errorf("%s cannot be empty", name)
		case utf8.RuneCountInString(value) > maxValue:
			return fmt.Errorf("%s is %d characters long; it can have %d", name, utf8.RuneCountInString(value), maxValue)
		}
	}
	return nil
}

func (p *process) fieldNames() string {
	var names []string
	for _, f := range p.Fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// quote quotes a caller's text for an error, without repeating all of an overlong one.
func quote(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

// summary describes a change, which made item a duplicate of original unless that is nil.
func (p *process) summary(item Item, change map[string]string, original *Item) string {
	headline, link := item.String()+" updated.", ""
	resolved := change[stateField] == "Resolved" && change[resolutionField] != ""
	switch {
	case resolved && original != nil:
		headline = fmt.Sprintf("%s resolved as %s of %s.", item, change[resolutionField], original)
		link = "duplicate link created"
	case resolved:
		headline = fmt.Sprintf("%s resolved as %s.", item, change[resolutionField])
	case original != nil:
		link = fmt.Sprintf("duplicate link to %s created", original)
	}
	var done []string
	for _, f := range p.Fields {
		value, changed := change[f.Name]
		switch {
		case !changed || resolved && f.Name == resolutionField: // the headline says it
		case value == "":
			done = append(done, f.Label+" cleared")
		default:
			done = append(done, f.Label+" set to "+value)
		}
	}
	if link != "" {
		done = append(done, link)
	}
	if last := len(done) - 1; last > 0 {
		done = []string{strings.Join(done[:last], ", "), done[last]}
	}
	return headline + " " + strings.Join(done, " and ") + "."
}
