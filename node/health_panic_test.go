package node_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/node"
)

// illApps starts nodes whose apps can be made unhealthy, and waits until they serve. It returns the switch of each app.
func illApps(w *world, names ...string) map[string]*atomic.Bool {
	w.t.Helper()
	ill := map[string]*atomic.Bool{}
	for _, name := range names {
		ill[name] = &atomic.Bool{}
	}
	w.tune = func(o *node.Options) {
		bad := ill[o.Dir.Node()]
		o.CheckApp = func(context.Context) error {
			if bad.Load() {
				return errors.New("the app answered /health with 503")
			}
			return nil
		}
	}
	for _, name := range names {
		w.start(name)
	}
	w.untilSettled(names...)
	return ill
}

// The failure of a dependency that all apps share moves no shards. Once, all shards moved to the last node whose app became unhealthy, and
// back afterwards.
func TestSharedDependencyMovesNoShards(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		ill := illApps(w, "a", "b", "c")
		time.Sleep(2 * time.Second)
		w.check()
		maps, moved := w.maps, w.moved
		for _, x := range ill {
			x.Store(true)
		}
		for _, p := range w.running() {
			w.untilFindingsAre(p, "no-healthy-app: no node has an app that responds: ")
		}
		ill["a"].Store(false)
		for _, p := range w.running() {
			w.untilFindingsAre(p, "health-panic: 2 of 3 apps are unhealthy (b and c)")
			if err := p.node.API().Ready(); err != nil {
				w.t.Errorf("%s serves its shards, and is not ready: %v", p.name, err)
			}
		}
		for _, x := range ill {
			x.Store(false)
		}
		w.until("nothing is found any more", func() bool { return len(w.all["a"].node.Findings()) == 0 })
		time.Sleep(20 * time.Second)
		w.check()
		if w.moved != moved {
			w.t.Errorf("%d shards moved in %d maps, want none", w.moved-moved, w.maps-maps)
		}
	})
}

// An app that becomes unhealthy and healthy every second causes few maps. Once, it caused a map each time. Its node sees it healthy for
// less than 2 s at a time, which is the first delay of the damping. With a longer time, the number of maps would depend on the time of the
// checks.
func TestFlappingAppMakesFewMaps(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		ill := illApps(w, "a", "b", "c")
		c := w.all["c"]
		w.check()
		maps := w.maps
		found := false
		for began := time.Now(); time.Since(began) < 3*time.Minute; {
			ill["c"].Store(true)
			w.during(func() { time.Sleep(2 * time.Second) })
			ill["c"].Store(false)
			w.during(func() { time.Sleep(time.Second) })
			for _, f := range w.all["a"].node.Findings() {
				found = found || strings.Contains(f.String(), "app-flapping: the app of node c became unhealthy")
			}
		}
		if n := w.maps - maps; n < 2 || n > 4 {
			w.t.Errorf("%d maps in three minutes, want at most four", n)
		}
		if !found {
			w.t.Error("it is not told that the app flaps")
		}
		w.within(6*time.Minute, "c is back once its app is healthy for long", func() bool { return w.settled("a", "b", "c") })
		if err := c.node.API().Ready(); err != nil {
			w.t.Error(err)
		}
	})
}
