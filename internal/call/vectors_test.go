package call

import "testing"

// The keys that outside systems know steps by are the same in every release: if one derived them otherwise, a step that
// was tried before an upgrade would take effect again after it. Never change a row.
func TestIdempotencyKeysStayTheSame(t *testing.T) {
	for _, v := range []struct{ id, step, key string }{
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "order", "92a4212c6c9ebf1fb71e70b999038d4b"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "order-2", "a4b1d6169cf37a8c1c2893c4aa05a278"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "", "c000e3e0794ff6b8d34fc0e9227387b7"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "Größe/→", "9a79aa72b7c476b85264d12c3a276fc1"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "a\x00b", "b495716dd28687c9e01988a9a968919d"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY2", "order", "62a898ff1aded3dc8cc5ad947333c4c4"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY2", "order-2", "3a4d438b3de419051aa45bb5622aa543"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY2", "", "baabf067c605ee37af32df1d61d0d885"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY2", "Größe/→", "319d56922d523f2de31c14b122349fc2"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXY2", "a\x00b", "b3d44e00ab0e21f402ec6ef39ba0de5e"},
		{"", "order", "67598a4063166674bcc3e97d4dfc6ab5"},
		{"", "order-2", "d9860bd136da5a7d711164c7e5ac4c46"},
		{"", "", "68837bbfc4fe8872742914f375d2adec"},
		{"", "Größe/→", "21cb35a844e1be4b15a28df01578ff83"},
		{"", "a\x00b", "2f25a0422d8308b4028b9c6c700e7e94"},
	} {
		c := &Call{id: v.id}
		for range 2 {
			if got := c.IdempotencyKey(v.step); got != v.key {
				t.Errorf("the key of the step %q of the call %q is %s, want %s", v.step, v.id, got, v.key)
			}
		}
	}
}

// The ID by which logs of several releases know a call stays the same as well.
func TestPublicIDsStayTheSame(t *testing.T) {
	for id, want := range map[string]string{
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ": "GPBYBUHQSRTVCI7643L47QQD76",
		"ABCDEFGHIJKLMNOPQRSTUVWXY2": "TEDMB53SATNET3QV6GYQNXKJPD",
		"":                           "JO75675AF3EBND67FYYDAOUKAK",
	} {
		if got := (&Call{id: id}).PublicID(); got != want {
			t.Errorf("the public ID of the call %q is %s, want %s", id, got, want)
		}
	}
}
