//go:build linux

package chaos

import "shardway/e2e/kit/cluster"

// killApp is kill -9 of the app behind a node, and its restart.
type killApp struct{ victim *cluster.Node }

func (*killApp) name() string { return "kill -9 app" }

func (f *killApp) begin(w *world) {
	f.victim = w.pick(anybody)
	f.victim.App.Kill(w)
}

func (f *killApp) end(w *world) { f.victim.App.Start(w) }

// restartApp has the app behind a node begin anew, some times, before its node takes it
// for sick: it has forgotten what it had acquired, and says so when it is asked.
type restartApp struct{ victim *cluster.Node }

func (*restartApp) name() string { return "app restart" }

func (f *restartApp) begin(w *world) { f.victim = w.pick(anybody) }

func (f *restartApp) during(w *world) {
	for range 1 + w.rng.IntN(3) {
		w.note("the app of %s begins anew", f.victim.ID)
		f.victim.App.Kill(w)
		f.victim.App.Start(w)
		w.flow()
	}
}

func (*restartApp) end(*world) {}
