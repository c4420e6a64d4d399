package cli

import (
	"reflect"
	"slices"
	"testing"

	"shardway/internal/memory"
	"shardway/internal/processors"
)

// What an operator says to the Go runtime by its environment is the way out of what a node does
// by itself: with GOGC it gives no memory back, and with GOMAXPROCS it uses so many processors.
func TestEnvironmentKeepsTheNodeFromMindingIt(t *testing.T) {
	at := func(f any) uintptr { return reflect.ValueOf(f).Pointer() }
	gives, uses := at(memory.Run), at(processors.Run)
	for _, tc := range []struct {
		environ []string
		want    []uintptr
	}{
		{nil, []uintptr{uses, gives}},
		{[]string{"GOGC=", "GOMAXPROCS=", "GODEBUG=x=1"}, []uintptr{uses, gives}},
		{[]string{"PATH=/", "GOGC=100"}, []uintptr{uses}},
		{[]string{"GOGC=off"}, []uintptr{uses}},
		{[]string{"GOMAXPROCS=4"}, []uintptr{gives}},
		{[]string{"GOMAXPROCS=4", "GOGC=50"}, nil},
	} {
		var got []uintptr
		for _, mind := range minders(tc.environ) {
			got = append(got, at(mind))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("with %q %d things are minded, want %d: %v, of %v and %v", tc.environ, len(got), len(tc.want), got, uses, gives)
		}
	}
}
