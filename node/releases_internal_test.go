package node

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/shardmap"
)

// The machine asks again and again until the leader has it: each proposal is told of once,
// in so many lines, and the newest waits.
func TestNotesThatDoNotFitAreToldOfOnce(t *testing.T) {
	var log bytes.Buffer
	h := newHooking(nil, nil, zerolog.New(&log))
	lines := func(text string) int { return strings.Count(log.String(), text) }
	over := make([]shardmap.Shard, 2*maxWarned)
	for i := range over {
		over[i] = shardmap.Shard(i)
	}
	for _, step := range []struct {
		proposal     shardmap.Epoch
		over         []shardmap.Shard
		single, more int // lines in all, of one shard and of many
	}{
		{7, nil, 0, 0},
		{7, over, maxWarned, 1},
		{7, over, maxWarned, 1},
		{8, over[:maxWarned], 2 * maxWarned, 1},
		{8, over[:maxWarned], 2 * maxWarned, 1},
		{9, over[:maxWarned], 3 * maxWarned, 1},
	} {
		h.deliver(ack.Releases{Node: "a", Proposal: step.proposal, Over: step.over})
		if s, m := lines("note refused"), lines("more notes refused"); s != step.single || m != step.more {
			t.Errorf("proposal %d with %d: %d and %d lines, want %d and %d", step.proposal, len(step.over), s, m, step.single, step.more)
		}
	}
	if r := <-h.given; r.Proposal != 9 {
		t.Errorf("what waits is of proposal %d, want the newest", r.Proposal)
	}
}
