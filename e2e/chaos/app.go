//go:build linux

package chaos

import "shardway/e2e/cluster"

// killApp is kill -9 of the app behind a node, and its restart.
type killApp struct{ victim *cluster.Node }

func (*killApp) name() string { return "kill -9 app" }

func (f *killApp) begin(w *world) {
	f.victim = w.pick(anybody)
	f.victim.App.Kill(w)
}

func (f *killApp) end(w *world) { f.victim.App.Start(w) }
