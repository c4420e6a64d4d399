package clusterid_test

import (
	"testing"

	"shardway/node/clusterid"
)

func TestLaterRecoverySupersedes(t *testing.T) {
	born := clusterid.New()
	first := clusterid.Recovered(born, 1<<32)
	second := clusterid.Recovered(first, 1<<33)
	twin := clusterid.Recovered(born, 1<<32)
	other := clusterid.New()
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"recovered over born", first, born, true},
		{"born over recovered", born, first, false},
		{"second over first", second, first, true},
		{"second over born", second, born, true},
		{"first over second", first, second, false},
		{"itself", first, first, false},
		{"another family", clusterid.Recovered(other, 1<<40), first, false},
		{"born over none", born, "", false},
		{"none over born", "", born, false},
		{"dots of another make", "x.y-z", "x", false},
	}
	for _, tt := range tests {
		if got := clusterid.Supersedes(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: Supersedes(%q, %q) = %v, want %v", tt.name, tt.a, tt.b, got, tt.want)
		}
	}
	if clusterid.Supersedes(first, twin) == clusterid.Supersedes(twin, first) {
		t.Errorf("neither or both of %q and %q supersede the other", first, twin)
	}
	if len(second) > 64 {
		t.Errorf("id %q has %d bytes, at most 64 travel", second, len(second))
	}
}
