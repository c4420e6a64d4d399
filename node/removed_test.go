package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/admin"
	"shardway/shardmap"
)

// One of two voters cannot be removed. Who tried it with force had vouched that it runs
// nothing all the same, before it was refused: its shards were given away at once.
func TestRefusedRemovalVouchesForNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		l, p := w.leader(), w.follower()
		w.during(func() {
			if err := p.node.LeaveGossip(context.Background()); err != nil {
				w.t.Error(err)
			}
		})
		further := p.node.Stall() // it votes, and is not heard
		defer further()
		w.until("it is refused for being one of two", func() bool {
			err := l.node.Do(w.t.Context(), admin.Action{Verb: admin.Remove, Node: p.name, Force: true})
			if !errors.Is(err, admin.ErrRefused) {
				w.t.Fatalf("removed one of two voters: %v", err)
			}
			return strings.Contains(err.Error(), "one of two voters")
		})
		id := shardmap.NodeID(p.name)
		w.until("its shards are taken", func() bool { return l.node.Known().Dropped(id) })
		if d, _ := l.node.Known().Drop(id); d.Cause == ack.CauseRemoved {
			w.t.Errorf("it was dropped as %v, by the word of one who was refused", d.Cause)
		}
	})
}
