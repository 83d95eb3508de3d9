package receiptcmd

import "testing"

// A report names where the keys came from, and no password.
func TestShownKeys(t *testing.T) {
	for from, want := range map[string]string{
		"https://ada:hunter2@in.example.com/receipts.jwks": "https://ada:xxxxx@in.example.com/receipts.jwks",
		"https://in.example.com/receipts.jwks":             "https://in.example.com/receipts.jwks",
		"keys/of: ada.jwks":                                "keys/of: ada.jwks",
	} {
		if got := shownKeys(from); got != want {
			t.Errorf("%q is shown as %q, want %q", from, got, want)
		}
	}
}
