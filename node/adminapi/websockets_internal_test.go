package adminapi

import (
	"fmt"
	"testing"
)

// A resumable WebSocket counts once, although its client is connected to one node and its upstream connection to another. Other WebSockets
// count at the node of their app.
func TestSocketsArePutTogether(t *testing.T) {
	got := mergeWebSockets(map[string]WebSocketReport{
		"b": {{7, 3, 1, 0, 0}, {9, 1, 0, 1, 0}},
		"a": {{7, 0, 0, 3, 2}, {8, 0, 0, 4, 0}},
	}, []string{"c"})
	if want := "[{7 3 1 2} {9 1 0 0}]"; fmt.Sprint(got.Shards) != want {
		t.Errorf("shards %v, want %s", got.Shards, want)
	}
	if want := "[{a 0 0 9} {b 4 1 1}]"; fmt.Sprint(got.Nodes) != want {
		t.Errorf("nodes %v, want %s", got.Nodes, want)
	}
	if fmt.Sprint(got.Unresponsive) != "[c]" {
		t.Errorf("silent %v", got.Unresponsive)
	}
}
