//go:build linux

package chaos

// nothing is the round that shows what the machine itself does.
type nothing struct{}

func (*nothing) name() string { return "nothing" }

func (*nothing) begin(*world) {}

func (*nothing) end(*world) {}

// rolling is SIGTERM of every node in turn, each started again, at once if it restarts in
// place: nothing may fail.
type rolling struct{}

func (*rolling) name() string { return "rolling SIGTERM" }

func (*rolling) alone() {}

func (*rolling) begin(*world) {}

func (*rolling) during(w *world) {
	for _, i := range w.rng.Perm(len(w.members)) {
		n := w.members[i]
		w.note("SIGTERM %s", n.ID)
		n.Stop(w)
		if !n.Holds() {
			w.carryOn(n)
		}
		w.start(n)
		w.recover()
	}
}

func (*rolling) end(*world) {}

// stepDown has the leader hand over, some times: nothing may fail, nothing moves.
type stepDown struct{}

func (*stepDown) name() string { return "step-down" }

func (*stepDown) alone() {}

func (*stepDown) begin(*world) {}

func (*stepDown) during(w *world) {
	for range 1 + w.rng.IntN(3) {
		n := w.c.LeaderOf(w, w.members...)
		w.note("%s steps down", n.ID)
		if err := n.Try(w.Context(), "step-down", nil); err != nil {
			w.note("%v", err) // it stays, or did it all the same
		}
		w.recover()
	}
}

func (*stepDown) end(*world) {}
