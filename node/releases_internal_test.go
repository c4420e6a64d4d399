package node

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/cluster"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// The machine repeats its message until the leader has it. Notes of a proposal that do not fit are logged once, in a limited number of
// lines, and the newest proposal waits.
func TestNotesThatDoNotFitAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := newHookRunner(nil, nil, zerolog.New(&log))
	lines := func(text string) int { return strings.Count(log.String(), text) }
	over := make([]shardmap.Shard, 2*maxWarned)
	for i := range over {
		over[i] = shardmap.Shard(i)
	}
	for _, step := range []struct {
		proposal     shardmap.Epoch
		over         []shardmap.Shard
		single, more int // log lines in all, for one shard and for many
	}{
		{7, nil, 0, 0},
		{7, over, maxWarned, 1},
		{7, over, maxWarned, 1},
		{8, over[:maxWarned], 2 * maxWarned, 1},
		{8, over[:maxWarned], 2 * maxWarned, 1},
		{9, over[:maxWarned], 3 * maxWarned, 1},
	} {
		h.sendReleases(ack.Releases{Node: "a", Proposal: step.proposal, OverLimit: step.over})
		if s, m := lines("note refused"), lines("more releases out of range"); s != step.single || m != step.more {
			t.Errorf("proposal %d with %d: %d and %d lines, want %d and %d", step.proposal, len(step.over), s, m, step.single, step.more)
		}
	}
	if r := <-h.releaseNotes; r.Proposal != 9 {
		t.Errorf("what waits is of proposal %d, want the newest", r.Proposal)
	}
}

// A node that sends the leader its release notes learns whether the leader has them. A node that does not lead rejects them. Unreadable
// notes, and notes of another node, are ignored and do not fill the log.
func TestReleasesAreTakenByTheLeaderOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ack.Releases{FormatVersion: ack.MinFormatVersion, Node: "b", Server: "b/d", Boot: 1, Proposal: 7}
		whole, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		b := &leaderInbox{leadership: new(atomic.Pointer[leaderloop.Leadership]), log: zerolog.New(&log)}
		if err := b.deliverReleases("b", whole); !errors.Is(err, api.ErrNoLeader) {
			t.Errorf("one that does not lead says %v, want %v", err, api.ErrNoLeader)
		}
		l, messages, _ := leaderloop.NewWithoutLoop(leaderloop.Options{View: cluster.NewView("a", "a/d", ack.DefaultTiming(), ack.NewState)}, 1, 0)
		b.leadership.Store(l)
		for range 100 {
			for from, encoded := range map[string][]byte{"b": whole[:len(whole)-1], "c": whole} {
				if err := b.deliverReleases(from, encoded); !errors.Is(err, api.ErrInvalid) {
					t.Errorf("of %s: %v, want %v", from, err, api.ErrInvalid)
				}
			}
		}
		if n := strings.Count(log.String(), "invalid releases from node"); n != 2 {
			t.Errorf("%d lines of what two nodes sent, want 2", n)
		}
		select {
		case m := <-messages:
			t.Errorf("the leader was told %+v", m)
		default:
		}
		told := make(chan error, 1)
		go func() { told <- b.deliverReleases("b", whole) }()
		d, ok := (<-messages).(leader.ReleasesReceived)
		if err := <-told; err != nil {
			t.Errorf("the leader says %v", err)
		}
		if !ok || d.Node != "b" || d.Proposal != 7 {
			t.Errorf("the leader was told %+v", d)
		}
		time.Sleep(time.Hour)
		_ = b.deliverReleases("c", whole)
		if n := strings.Count(log.String(), "invalid releases from node"); n != 3 {
			t.Errorf("%d lines, want one more after an hour", n)
		}
	})
}
