package foreign

import (
	"regexp"
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// The bounds of a URI template, and of a URI that is compared with it.
const (
	mostTemplateBytes = 1 << 10
	mostVariables     = 16
	mostURIBytes      = 2 << 10
)

// Template is a URI template of a stranger's, compiled. It is safe for concurrent use.
type Template struct{ matching *regexp.Regexp }

// ParseTemplate compiles a template. A [*BoundError] says why it cannot be used.
func ParseTemplate(text string) (t *Template, err error) {
	if len(text) > mostTemplateBytes {
		return nil, beyond("the URI template has more than %d bytes", mostTemplateBytes)
	}
	if strings.Count(text, "{")+strings.Count(text, ",") > mostVariables {
		return nil, beyond("the URI template has more than %d variables", mostVariables)
	}
	defer func() {
		if recover() != nil {
			t, err = nil, beyond("the URI template cannot be compiled")
		}
	}()
	parsed, err := uritemplate.New(text)
	if err != nil {
		return nil, beyond("the URI template cannot be read: %.200v", err)
	}
	return &Template{parsed.Regexp()}, nil
}

// Matches reports whether a URI is one of the template's. A URI of more than 2 KiB is none.
func (t *Template) Matches(uri string) bool {
	return len(uri) <= mostURIBytes && t.matching.MatchString(uri)
}
