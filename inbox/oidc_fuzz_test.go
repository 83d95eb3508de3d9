package inbox

import (
	"encoding/json"
	"testing"
)

// Whatever a provider says, somebody has a name and groups that one source gives them, and a name by an address only
// where that source says that it is verified.
func FuzzClaims(f *testing.F) {
	for _, s := range [][2]string{
		{`{"sub":"a","groups":["x"]}`, `{}`},
		{`{"email":"a@x.example"}`, `{"email":"b@x.example","email_verified":true}`},
		{`{"email_verified":"true"}`, `{"email":"b@x.example","groups":"y"}`},
		{`{"email":7,"groups":[1]}`, `{"email":null,"_claim_names":{"groups":"src"}}`},
		{`null`, `{"sub":"\ud800","groups":[null]}`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, idToken, userInfo string) {
		var told, more claims
		if json.Unmarshal([]byte(idToken), &told) != nil || json.Unmarshal([]byte(userInfo), &more) != nil {
			return
		}
		for _, name := range []string{"sub", "email"} {
			o := &OIDC{OIDCOptions: OIDCOptions{NameClaim: name, NamePrefix: "p ", GroupsClaim: "groups"}}
			p, err := o.read(told, more)
			if err != nil {
				continue
			}
			gives := func(c claims) bool {
				var text string
				verified := string(c["email_verified"])
				return json.Unmarshal(c[name], &text) == nil && text != "" && p.Name == "p "+text &&
					(name != "email" || verified == "true" || c.text("email_verified") == "true")
			}
			if !gives(told) && !(gives(more) && !told.has(name)) {
				t.Errorf("%s and %s give %+v", idToken, userInfo, p)
			}
			if !told.has("groups") && !more.has("groups") && len(p.Groups) > 0 {
				t.Errorf("%s and %s give the groups %q", idToken, userInfo, p.Groups)
			}
		}
	})
}
