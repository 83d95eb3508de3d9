package tags

import (
	"reflect"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	known := []string{"json", "enum", "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"}
	for tag, want := range map[string]string{
		`json:"a" maxLength:"3" db:"x" yaml:"y,omitempty" form:"a" env:"A" bson:"a"`: "",
		``:                             "",
		`maxLenght:"3"`:                "did you mean maxLength?",
		`maxlength:"3"`:                "did you mean maxLength?",
		`max_length:"3"`:               "did you mean maxLength?",
		`Enum:"a|b"`:                   "did you mean enum?",
		`formt:"email"`:                "did you mean format?",
		`maximun:"3"`:                  "did you mean maximum?",
		`maxlen_gth:"3"`:               "did you mean maxLength?",
		`Maximum:"3"`:                  "did you mean maximum?",
		`mximum:"3"`:                   "did you mean maximum?",
		`minimun:"3"`:                  "did you mean minimum?",
		`maxitems:"3"`:                 "did you mean maxItems?",
		`maxItem:"3"`:                  "did you mean maxItems?",
		`MINLENGTH:"3"`:                "did you mean minLength?",
		`miLength:"3"`:                 "did you mean minLength?",
		`mLength:"3"`:                  "did you mean minLength or maxLength?",
		`pattern:"^a"`:                 "no tag is called pattern; there are json, enum",
		`json:"a"maxLength:"3"`:        "needs a space after json",
		`json:"a", maxLength:"3"`:      "needs a space after json",
		`json:a`:                       "cannot be read",
		"json:`a`":                     "cannot be read",
		`a plain comment`:              "cannot be read",
		`json:"a" maxLength: "3"`:      "cannot be read",
		`json:"a" enum:"a" enum:"b"`:   "twice",
		`json:"a" enum:"a\"|b" x:"\t"`: "",
	} {
		err := Check(reflect.StructTag(tag), known, []string{"pattern"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", tag, err, want)
		}
	}
}
