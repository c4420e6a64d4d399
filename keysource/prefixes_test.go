package keysource_test

import (
	"slices"
	"testing"

	"shardway/keysource"
)

func TestPrefixesMatchLongestPrefix(t *testing.T) {
	prefixes, err := keysource.NewPrefixes([]string{"/a", "/a/b/", "/", "/c%20d", "/C%20D"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"/a": 0, "/a/x": 0, "/ab": 2, "/a/b": 0, "/a/b/": 1, "/a/b/c": 1, "/c d": 3, "/c%20d/x": 3, "/C D/x": 4, "/x": 2} {
		path := keysource.ParsePath(nil, []byte(text))
		if got, ok := prefixes.Match(&path); got != want || !ok {
			t.Errorf("%s = %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"/a%2Fb/", "/../a", "/a//x/..", "/A/x", "/a/B/x", "/C d"} {
		path := keysource.ParsePath(nil, []byte(text))
		if got, ok := prefixes.Match(&path); ok {
			t.Errorf("%s = %d, want ambiguous", text, got)
		}
	}
	if got := slices.Collect(prefixes.Enclosing(1)); !slices.Equal(got, []int{1, 0, 2}) {
		t.Errorf("prefixes that contain /a/b/ = %v", got)
	}
	for _, invalid := range [][]string{{"a"}, {"/a", "/%61"}, {"/a/../b"}} {
		if _, err := keysource.NewPrefixes(invalid); err == nil {
			t.Errorf("%v is valid", invalid)
		}
	}
}
