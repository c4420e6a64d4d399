package admin_test

import (
	"strings"
	"testing"

	"shardway/admin"
)

// The served page, the status command and the page's script show the same line.
func TestKeysAreOneLine(t *testing.T) {
	for want, k := range map[string]admin.KeysState{
		"0123abcd since epoch 7":                                                          {Digest: "0123abcd89abcdef", Since: 7},
		"0123abcd since epoch 7, changing now":                                            {Digest: "0123abcd89abcdef", Since: 7, Changing: true},
		"0123abcd since epoch 7, another one loaded by a, b":                              {Digest: "0123abcd89abcdef", Since: 7, Pending: []string{"a", "b"}},
		"0123abcd since epoch 7, another one loaded by a, b, c, d, e, f, g, h and 2 more": {Digest: "0123abcd89abcdef", Since: 7, Pending: strings.Split("abcdefghij", "")},
	} {
		if got := k.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if page, _ := pageOf(t, admin.Status{Keys: &k}); !strings.Contains(page, "<dt>keys</dt><dd>"+want+"</dd>") {
			t.Errorf("the page lacks %q", want)
		}
	}
}
