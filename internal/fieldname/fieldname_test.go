package fieldname_test

import (
	"strings"
	"testing"

	"shardway/internal/fieldname"
)

func TestTokenHasOnlyTokenBytes(t *testing.T) {
	for c := range 256 {
		text := string([]byte{'a', byte(c)})
		isControlOrSpace := c <= ' ' || c >= 0x7f
		want := !isControlOrSpace && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, rune(c))
		if fieldname.IsToken(text) != want || fieldname.IsTokenByte(byte(c)) != want {
			t.Errorf("%q: token %v, want %v", text, !want, want)
		}
	}
	if fieldname.IsToken("") || fieldname.IsToken([]byte(nil)) {
		t.Error("the empty text is a token")
	}
}

func TestLookalikesHaveOneNormalName(t *testing.T) {
	const normal = "x-user-1"
	for _, name := range []string{"x-user-1", "X-User-1", "X_USER.1", "x~user\xff1"} {
		if got := fieldname.Normalize(name); got != normal || !fieldname.HasNormal(name, normal) || !fieldname.HasNormal([]byte(name), normal) {
			t.Errorf("%q has the normal name %q, want %q", name, got, normal)
		}
	}
	for _, name := range []string{"", "x-user-", "x-user-12", "x-user1-", "x-uses-1"} {
		if fieldname.Normalize(name) == normal || fieldname.HasNormal(name, normal) {
			t.Errorf("%q has the normal name %q", name, normal)
		}
	}
}
