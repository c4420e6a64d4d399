package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
)

// Whoever asks for something while an election is under way is told that nobody leads, and
// to try again. If the leader had just died that was told as a defect of Shardway's own
// (500 internal, connection refused), and else nothing was said that one could do.
func TestActionsDuringAnElectionReportToTryAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"killed", "asked"} {
		three(t, func(w *world) {
			w.untilVoters(3)
			l, uncordon := w.leader(), api.Action{Verb: api.Uncordon, Node: "a"}
			rest := w.others(l)
			if how == "killed" {
				l.kill()
			} else if err := l.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
				w.t.Fatal(err)
			}
			refused := 0
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for _, name := range rest {
					err := w.all[name].node.API().Do(w.t.Context(), uncordon)
					if err == nil {
						continue
					}
					refused++
					if text := err.Error(); !strings.Contains(text, "try again") || !errors.Is(err, api.ErrNoLeader) && !errors.Is(err, api.ErrRefused) {
						w.t.Fatalf("with a leader that was %s: %v", how, err)
					}
				}
			}
			if how == "killed" && refused == 0 {
				w.t.Error("there was a leader all the time")
			}
		})
	}
}

// Of a leader that ends within a question nobody knows whether it has done what it was asked
// for, or only written it down. That was told as a defect of Shardway's own, too.
func TestActionOfALeaderThatEndsMayHaveHappened(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		l := w.leader()
		asks := w.all[w.others(l)[0]]
		l.mem.SetStoreFault(func(string) error {
			time.Sleep(time.Second)
			return nil
		})
		time.AfterFunc(100*time.Millisecond, l.kill)
		err := asks.node.API().Do(w.t.Context(), api.Action{Verb: api.Cordon, Node: asks.name})
		if !errors.Is(err, api.ErrUnknown) || errors.Is(err, api.ErrNoLeader) || !strings.Contains(err.Error(), l.name) {
			w.t.Errorf("cordon = %v, want that nobody knows of it any more, and of whom", err)
		}
	})
}
