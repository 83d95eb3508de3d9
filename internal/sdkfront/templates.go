package sdkfront

import (
	"sync"

	"github.com/yosida95/uritemplate/v3"
)

// templates are the parsed URI templates of the SDK's server. The zero value is empty.
type templates struct {
	parsed sync.Map // of *uritemplate.Template by text
}

func (t *templates) match(text, uri string) bool {
	parsed, ok := t.parsed.Load(text)
	if !ok {
		template, err := uritemplate.New(text)
		if err != nil {
			return false // the SDK matches none of it, either
		}
		parsed, _ = t.parsed.LoadOrStore(text, template)
	}
	return parsed.(*uritemplate.Template).Regexp().MatchString(uri)
}
