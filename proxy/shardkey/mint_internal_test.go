package shardkey

import (
	"strings"
	"testing"
)

// A generated key is drawn again while its shard belongs to a node that should get no new keys, up to
// a limit. After such a key, a key of this node is preferred to those of other nodes.
func TestGeneratedKeysAvoidDrainingNodes(t *testing.T) {
	for name, x := range map[string]struct {
		places string // of the drawn keys, in order; the last one repeats
		want   int    // index of the key that is used
		draws  int
	}{
		"the first one may":           {"e", 0, 1},
		"the first one is here":       {"h", 0, 1},
		"here is preferred":           {"aeeh", 3, 4},
		"elsewhere, if none is here":  {"aae", 2, maxGeneratedKeys},
		"all are avoided":             {"a", maxGeneratedKeys - 1, maxGeneratedKeys},
		"the first of those that may": {"aaea", 2, maxGeneratedKeys},
	} {
		var drawn []string
		f := Extractor{Place: func(key []byte) Placement {
			p := x.places[min(len(drawn), len(x.places)-1)]
			drawn = append(drawn, string(key))
			return map[byte]Placement{'a': PlaceAvoided, 'e': PlaceElsewhere, 'h': PlaceHere}[p]
		}}
		key := string(f.generateKey(make([]byte, 0, generatedKeyCap)))
		if len(drawn) != x.draws || key != drawn[x.want] || len(key) != generatedKeyLen || strings.Trim(key, "0123456789abcdef") != "" {
			t.Errorf("%s: %q of %d draws %q, want number %d of %d", name, key, len(drawn), drawn, x.want, x.draws)
		}
	}
	if key := new(Extractor).generateKey(make([]byte, 0, generatedKeyCap)); len(key) != generatedKeyLen {
		t.Errorf("without a cluster: %q", key)
	}
}
