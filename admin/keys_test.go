package admin_test

import (
	"strings"
	"testing"

	"shardway/admin/api"
)

// The served page, the status command and the script of the page show the same line.
func TestKeysAreOneLine(t *testing.T) {
	const digest = "0123abcd89abcdef"
	for want, k := range map[string]api.KeysState{
		"0123abcd since epoch 7":                                                       {Digest: digest, Since: 7},
		"0123abcd since epoch 7, changing now":                                         {Digest: digest, Since: 7, Changing: true},
		"0123abcd since epoch 7; 89efcdab loaded by a, b, not by c":                    {Digest: digest, Since: 7, Pending: []api.PendingKeys{{Digest: "89efcdab00000000", Loaded: []string{"a", "b"}, Missing: []string{"c"}}}},
		"0123abcd since epoch 7; 89efcdab loaded by a, b, c, d, e, f, g, h and 2 more": {Digest: digest, Since: 7, Pending: []api.PendingKeys{{Digest: "89efcdab00000000", Loaded: strings.Split("abcdefghij", "")}}},
		"0123abcd since epoch 7; 8 loaded by a, not by b; 9 loaded by b, not by a":     {Digest: digest, Since: 7, Pending: []api.PendingKeys{{Digest: "8", Loaded: []string{"a"}, Missing: []string{"b"}}, {Digest: "9", Loaded: []string{"b"}, Missing: []string{"a"}}}},
	} {
		if got := k.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if page, _ := dashboardURL(t, api.Status{Keys: &k}); !strings.Contains(page, "<dt>keys</dt><dd>"+want+"</dd>") {
			t.Errorf("the page lacks %q", want)
		}
	}
}
