package eventrelay

import (
	"strings"
	"testing"

	"shardway/proxy/eventstream"
)

// Ending the event stream of a run whose shard has moved does not affect a later run of the same
// connection: a pipelined request, or the next upstream connection of a resumed stream. Once, it ended
// the later run.
func TestStreamEndAffectsItsOwnRunOnly(t *testing.T) {
	var e Relay
	e.Begin(7, true, false, &eventstream.Buffer{})
	e.beginWrite()
	if _, err := e.bufferPart(nil, nil); err != nil {
		t.Fatal(err)
	}
	e.scanner.Next([]byte("id: 1\n\n"))
	if !e.endWrite() || !e.IsResumable(7) || e.IsResumable(6) {
		t.Fatal("the stream of run 7 cannot go on, or counts as that of run 6")
	}
	e.Resume(8, true)
	if !e.RequestEnd(7) {
		t.Error("the stream of run 7 is not over")
	}
	if !e.beginWrite() {
		t.Fatal("the stream of run 8 is over")
	}
	if whole := e.scanner.Next([]byte("id: 2\n\n" + strings.Repeat("x", 9))); whole != 7 {
		t.Errorf("whole = %d", whole)
	}
	if !e.endWrite() || e.RequestEnd(8) {
		t.Error("run 8 ended inside an event")
	}
}
