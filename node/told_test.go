package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A follower asked the leader by a stream for each question, every other second: of two
// followers that was most of what a leader at rest accepted.
func TestTheLeaderIsAskedAllAtOnce(t *testing.T) {
	three(t, func(w *world) {
		time.Sleep(10 * time.Second) // nobody has anything else to say by now
		l, f := w.leader(), w.follower()
		views, suspects, level, streams := f.node.AskLeader(w.t.Context(), l.node)
		if views != 3 || !suspects || !level || streams != 1 {
			t.Errorf("%d views, suspects %v, level %v by %d streams, want 3, true, true by one", views, suspects, level, streams)
		}
	})
}

// While nothing changes the leader is asked half as often: each time is a connection.
func TestTheLeaderIsAskedSeldomWhileAllIsCalm(t *testing.T) {
	three(t, func(w *world) {
		time.Sleep(time.Minute)
		l := w.leader().node
		before := l.AcceptedStreams()
		time.Sleep(time.Minute)
		if n := l.AcceptedStreams() - before; n > 2*60/3 || n < 2*60/6 { // some are for something else
			t.Errorf("two others have made %d connections in a minute, want one each every 4 s and a few more", n)
		}
	})
}

// Each question is answered as by itself, and there are only so many.
func TestSeveralQuestionsAreAnsweredEachByItself(t *testing.T) {
	three(t, func(w *world) {
		f := w.follower().node
		errs, err := f.Several(w.t.Context(), "load", "views", "nonsense", "running")
		if err != "" || len(errs) != 4 || errs[0] != "" || errs[1] == "" || !strings.Contains(errs[2], "nonsense") || errs[3] != "" {
			t.Errorf("errors %q, %q, want some of who does not lead, and of what is no question", errs, err)
		}
		for name, many := range map[string][]string{"within": {"load", "several"}, "at most": slices.Repeat([]string{"load"}, 9)} {
			if errs, err := f.Several(w.t.Context(), many...); len(errs) != 0 || !strings.Contains(err, name) {
				t.Errorf("%v: errors %q, %q, want a refusal", many, errs, err)
			}
		}
	})
}
