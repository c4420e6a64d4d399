//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"slices"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// slowDelay is how long the slow request takes: shorter than --drain-timeout.
const slowDelay = "4s"

// slowMove drains a node while it runs one GET that takes seconds: the other keys of the move are
// served elsewhere meanwhile.
type slowMove struct {
	victim *cluster.Node
	key    string        // of the slow request
	answer chan struct{} // closed when it is answered
}

func (*slowMove) name() string { return "slow request" }

// alone: beside other faults a drain may be refused.
func (*slowMove) alone() {}

func (f *slowMove) begin(w *world) {
	f.victim = w.pick(anybody)
	f.answer = make(chan struct{})
	f.key = w.first.Keys(f.victim.ID, 1)[0]
	w.note("%s runs a request for %s that takes %s", f.victim.ID, f.key, slowDelay)
	w.traffic.slow(f.key, f.answer)
}

func (f *slowMove) during(w *world) {
	others := slices.DeleteFunc(w.first.Keys(f.victim.ID, 8), func(key string) bool {
		return load.ShardOf(key, w.o.Shards) == load.ShardOf(f.key, w.o.Shards)
	})
	w.drains = append(w.drains, history.Drain{Node: f.victim.ID, From: history.Now()})
	w.drains[len(w.drains)-1].Entries.Since = w.ask("drain", f.victim, func(p cluster.Policy) bool { return slices.Contains(p.Drained, f.victim.ID) })
	cluster.Await(w, "other keys of the move are served elsewhere", func() error {
		m, err := w.others(f.victim)[0].Map(w.Context())
		if err != nil {
			return err
		}
		for _, key := range others {
			if m.OwnerOf(key) == f.victim.ID {
				return fmt.Errorf("%s is still at %s", key, f.victim.ID)
			}
		}
		return nil
	})
	select {
	case <-f.answer:
		w.Errorf("keys of %s moved only after its slow request was answered", f.victim.ID)
	default:
	}
	<-f.answer
	w.awaitEmpty(f.victim)
}

func (f *slowMove) end(w *world) { w.uncordon(f.victim) }

// slow sends one GET that takes slowDelay, and closes answered when it has its answer.
func (t *traffic) slow(key string, answered chan struct{}) {
	t.asked++
	r := load.Request{
		ID: fmt.Sprintf("r%d.slow%d", t.w.number, t.asked), Key: key, Method: http.MethodGet, Timeout: t.w.o.QueueWait + t.w.o.Patience,
		Header: map[string]string{"App-Delay": slowDelay},
	}
	client, ctx := t.clients[0], t.ctx
	t.asking.Go(func() {
		a := client.Do(ctx, r)
		close(answered)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answers = append(t.answers, a)
	})
}
