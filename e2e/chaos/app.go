//go:build linux

package chaos

import "shardway/e2e/kit/cluster"

// killApp sends kill -9 to the app behind a node, and starts the app again.
type killApp struct{ victim *cluster.Node }

func (*killApp) name() string { return "kill -9 app" }

func (f *killApp) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	f.victim.App.Kill(sc)
}

func (f *killApp) end(sc *scenario) { f.victim.App.Start(sc) }

// restartApp restarts the app behind a node several times. Each restart is so short that no
// health check of the node fails. The new process of the app holds no shards, and reports
// that in its next response.
type restartApp struct{ victim *cluster.Node }

func (*restartApp) name() string { return "app restart" }

func (f *restartApp) begin(sc *scenario) { f.victim = sc.pickNode(anyNode) }

func (f *restartApp) whileActive(sc *scenario) {
	for range 1 + sc.rng.IntN(3) {
		sc.tracef("the app of %s restarts", f.victim.ID)
		f.victim.App.Kill(sc)
		f.victim.App.Start(sc)
		sc.awaitLoad()
	}
}

func (*restartApp) end(*scenario) {}
