package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
)

// Run runs the demo until ctx ends, and then returns nil. Before it returns, it stops all processes and
// removes their directory. It returns an error if the cluster does not start.
func Run(ctx context.Context, options Options) (err error) {
	// Children are bound to this thread (see the package comment). If the goroutine left it, the runtime
	// could end the thread, and the kernel would kill all children.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	options, err = options.withDefaults()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	plan, err := planLayout(portFree(ctx))
	if err != nil {
		return err
	}
	workDir, err := newScratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workDir.remove()) }()

	f := newFleet(options, plan, workDir)
	err = f.run(ctx)
	f.stop(err == nil)
	if err != nil && ctx.Err() != nil {
		return nil // ctx ended during the start
	}
	return err
}

// newFleet returns the processes of a layout. It starts none.
func newFleet(options Options, plan layout, workDir *scratch) *fleet {
	dir := workDir.dir
	f := &fleet{options: options, layout: plan, dir: dir, out: &output{writer: options.Out}, prober: newProber(), events: make(chan event)}
	for i, nodePlan := range plan.nodes {
		f.apps = append(f.apps, &proc{
			name: nodePlan.id + "-app", node: nodePlan.id, isApp: true, args: plan.appArgs(i, dir),
			readyURL: "http://" + addr(nodePlan.app) + healthPath, logFile: filepath.Join(dir, nodePlan.id+"-app.log"), lock: workDir.lock,
		})
		f.nodes = append(f.nodes, &proc{
			name: nodePlan.id, node: nodePlan.id, args: plan.runArgs(i, dir, options.Args),
			readyURL: "http://" + addr(nodePlan.admin) + "/readyz", logFile: filepath.Join(dir, nodePlan.id+".log"), lock: workDir.lock,
		})
	}
	return f
}
