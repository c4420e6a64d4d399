package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
)

// Run runs the demo until ctx ends, and returns nil then. Before it returns, every
// process it started has ended and its directory is gone. It fails if the cluster
// does not come up.
func Run(ctx context.Context, o Options) (err error) {
	// See the package comment: children are bound to this thread. If the
	// goroutine left it, the runtime could end the thread and with it the demo.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	o, err = o.withDefaults()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	l, err := plan(portFree(ctx))
	if err != nil {
		return err
	}
	s, err := newScratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()

	f := newFleet(o, l, s)
	err = f.run(ctx)
	f.stop(err == nil)
	if err != nil && ctx.Err() != nil {
		return nil // told to stop while it was starting
	}
	return err
}

// newFleet returns the processes of a layout, none of which runs yet.
func newFleet(o Options, l layout, s *scratch) *fleet {
	dir := s.dir
	f := &fleet{o: o, layout: l, dir: dir, out: &output{w: o.Out}, prober: newProber(), events: make(chan event)}
	for i, n := range l.nodes {
		f.apps = append(f.apps, &proc{
			name: n.id + "-app", node: n.id, isApp: true, args: l.appArgs(i, dir),
			ready: "http://" + addr(n.app) + healthPath, log: filepath.Join(dir, n.id+"-app.log"), lock: s.lock,
		})
		f.nodes = append(f.nodes, &proc{
			name: n.id, node: n.id, args: l.runArgs(i, dir, o.Args),
			ready: "http://" + addr(n.admin) + "/readyz", log: filepath.Join(dir, n.id+".log"), lock: s.lock,
		})
	}
	return f
}
