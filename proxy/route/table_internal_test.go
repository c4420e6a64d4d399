package route

import "testing"

// FuzzParseEpochs tests that an accepted value of Shardway-Map survives a round trip.
func FuzzParseEpochs(f *testing.F) {
	f.Add([]byte("12 13"))
	f.Add([]byte("18446744073709551615 18446744073709551616"))
	f.Add([]byte(" 1 2"))
	f.Fuzz(func(t *testing.T, v []byte) {
		committed, proposed, ok := ParseEpochs(v)
		if !ok {
			return
		}
		again, after, ok := ParseEpochs(AppendEpochs(nil, committed, proposed))
		if !ok || again != committed || after != proposed {
			t.Fatalf("%q is %d %d, then %d %d", v, committed, proposed, again, after)
		}
	})
}
