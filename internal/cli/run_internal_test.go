package cli

import (
	"slices"
	"testing"
)

// The environment variables of the Go runtime override the automatic settings of a node: with GOGC, it
// does not return memory to the system, and with GOMAXPROCS, it uses that number of processors.
func TestEnvironmentOverridesRuntimeTuning(t *testing.T) {
	for _, tc := range []struct{ environ, want []string }{
		{nil, []string{"GOMAXPROCS", "GOGC"}},
		{[]string{"GOGC=", "GOMAXPROCS=", "GODEBUG=x=1"}, []string{"GOMAXPROCS", "GOGC"}},
		{[]string{"PATH=/", "GOGC=100"}, []string{"GOMAXPROCS"}},
		{[]string{"GOGC=off"}, []string{"GOMAXPROCS"}},
		{[]string{"GOMAXPROCS=4"}, []string{"GOGC"}},
		{[]string{"GOMAXPROCS=4", "GOGC=50"}, nil},
	} {
		var got []string
		for _, mind := range runtimeTuners(tc.environ) {
			got = append(got, mind.variable)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("with %q the node minds what %q would say, want %q", tc.environ, got, tc.want)
		}
	}
}
