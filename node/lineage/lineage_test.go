package lineage_test

import (
	"testing"

	"shardway/node/lineage"
)

func TestLaterRecoverySupersedes(t *testing.T) {
	born := lineage.New()
	first := lineage.Recovered(born, 1<<32)
	second := lineage.Recovered(first, 1<<33)
	twin := lineage.Recovered(born, 1<<32)
	other := lineage.New()
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
		{"another family", lineage.Recovered(other, 1<<40), first, false},
		{"born over none", born, "", false},
		{"none over born", "", born, false},
		{"dots of another make", "x.y-z", "x", false},
	}
	for _, tt := range tests {
		if got := lineage.Supersedes(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: Supersedes(%q, %q) = %v, want %v", tt.name, tt.a, tt.b, got, tt.want)
		}
	}
	if lineage.Supersedes(first, twin) == lineage.Supersedes(twin, first) {
		t.Errorf("neither or both of %q and %q supersede the other", first, twin)
	}
	if len(second) > 64 {
		t.Errorf("id %q has %d bytes, at most 64 travel", second, len(second))
	}
}
