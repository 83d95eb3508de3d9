package sdkfront

import (
	"sync"

	"github.com/yosida95/uritemplate/v3"
)

// mostTemplates bounds how many templates are kept. With more, each is parsed anew now and then.
const mostTemplates = 1_000

// templates are the parsed URI templates of the SDK's server. The zero value is empty.
type templates struct {
	mu     sync.Mutex
	parsed map[string]*uritemplate.Template
}

func (t *templates) match(text, uri string) bool {
	template := t.parse(text)
	return template != nil && template.Regexp().MatchString(uri)
}

// parse returns nil for a text that is no template: the SDK matches nothing to it, either.
func (t *templates) parse(text string) *uritemplate.Template {
	t.mu.Lock()
	defer t.mu.Unlock()
	template, known := t.parsed[text]
	if known {
		return template
	}
	if len(t.parsed) >= mostTemplates || t.parsed == nil {
		t.parsed = make(map[string]*uritemplate.Template)
	}
	template, _ = uritemplate.New(text)
	t.parsed[text] = template
	return template
}
