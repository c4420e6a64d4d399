package shardkey

import (
	"strings"
	"testing"
)

// A generated key is drawn again while its shard belongs to a node that should get no new keys, up to
// a limit. A key for the sticky cookie may belong to another node. A minted key belongs to this node if
// possible.
func TestGeneratedKeysAvoidDrainingNodes(t *testing.T) {
	sticky, mint := (*Extractor).stickyCookieKey, (*Extractor).mintKey
	for name, x := range map[string]struct {
		generate func(e *Extractor, dst []byte) []byte
		places   string // of the drawn keys, in order; the last one repeats
		want     int    // index of the key that is used
		draws    int
	}{
		"cookie elsewhere":                  {sticky, "e", 0, 1},
		"cookie here":                       {sticky, "h", 0, 1},
		"cookie, then here is preferred":    {sticky, "aeeh", 3, 4},
		"cookie, all are avoided":           {sticky, "a", maxGeneratedKeys, maxGeneratedKeys + 1},
		"here at once":                      {mint, "h", 0, 1},
		"here is preferred":                 {mint, "eaeh", 3, 4},
		"elsewhere, if none is here":        {mint, "aae", 2, maxGeneratedKeys},
		"all are avoided":                   {mint, "a", maxGeneratedKeys - 1, maxGeneratedKeys},
		"the first of those that may, last": {mint, "aaea", 2, maxGeneratedKeys},
	} {
		var drawn []string
		f := Extractor{rules: &rules{}, Place: func(_ string, key []byte) Placement {
			p := x.places[min(len(drawn), len(x.places)-1)]
			drawn = append(drawn, string(key))
			return map[byte]Placement{'a': PlaceAvoided, 'e': PlaceElsewhere, 'h': PlaceHere}[p]
		}}
		key := string(x.generate(&f, make([]byte, 0, generatedKeyCap)))
		if len(drawn) != x.draws || key != drawn[x.want] || len(key) != generatedKeyLen || strings.Trim(key, "0123456789abcdef") != "" {
			t.Errorf("%s: %q of %d draws %q, want number %d of %d", name, key, len(drawn), drawn, x.want, x.draws)
		}
	}
	for _, generate := range []func(*Extractor, []byte) []byte{sticky, mint} {
		if key := generate(new(Extractor), make([]byte, 0, generatedKeyCap)); len(key) != generatedKeyLen {
			t.Errorf("without a cluster: %q", key)
		}
	}
}
