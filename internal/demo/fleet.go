package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fleet supervises the processes of the demo. Its methods run on the goroutine that called Run.
// Reporter goroutines send events to it.
type fleet struct {
	options Options
	layout  layout
	dir     string
	out     *output
	prober  prober

	apps, nodes []*proc
	events      chan event
	reporters   sync.WaitGroup
}

// event is a message of a reporter to the supervisor.
type event struct {
	proc *proc
	kind eventKind
	took time.Duration // time from the start of the reporter to the event; for failedOver, since the process exited
}

// eventKind is the kind of an event.
type eventKind int

const (
	exited     eventKind = iota + 1 // the process has ended
	ready                           // it responds with success
	failedOver                      // other nodes own its shards
)

// run starts all processes, prints the welcome text, and restarts exited processes until ctx ends. It
// does not stop the processes.
func (f *fleet) run(ctx context.Context) error {
	f.progress(0)
	for i, stage := range [][]*proc{f.apps, f.nodes} {
		for _, process := range stage {
			if err := f.start(ctx, process); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
		}
		if err := f.waitReady(ctx, stage, i*len(f.apps)); err != nil {
			return err
		}
	}
	f.welcome(ctx)
	f.watch(ctx)
	return nil
}

// start starts a process and its two reporters. One reports that the process has exited, the other that
// it is ready.
func (f *fleet) start(ctx context.Context, p *proc) error {
	var echo io.Writer
	if f.options.Verbose {
		echo = f.out
	}
	wait, err := p.start(f.options.Program, f.options.Env, echo)
	if err != nil {
		return err
	}
	f.reporters.Go(func() {
		wait()
		f.events <- event{proc: p, kind: exited} // fleet.stop receives events until no process runs
	})
	f.startReporter(ctx, p, event{proc: p, kind: ready}, func(ctx context.Context) error { return f.prober.wait(ctx, p.readyURL) })
	return nil
}

// startReporter starts a goroutine that sends the event once wait returns nil. It cancels the previous
// reporter of p. The next startReporter or the exit of p cancels this one.
func (f *fleet) startReporter(ctx context.Context, p *proc, event event, wait func(ctx context.Context) error) {
	if p.stopReporter != nil {
		p.stopReporter()
	}
	ctx, cancel := context.WithCancel(ctx)
	p.stopReporter = cancel
	start := time.Now()
	f.reporters.Go(func() {
		if wait(ctx) != nil {
			return
		}
		event.took = time.Since(start)
		select {
		case f.events <- event:
		case <-ctx.Done():
		}
	})
}

// progress reports the number of ready processes to Options.Progress.
func (f *fleet) progress(done int) {
	if f.options.Progress != nil {
		f.options.Progress(done, len(f.apps)+len(f.nodes))
	}
}

// waitReady returns nil once all procs are ready. before is the number of processes that are ready
// already, for the progress. If a process exits or is not ready in time, the error contains the end of
// its log.
func (f *fleet) waitReady(ctx context.Context, procs []*proc, before int) error {
	missing := slices.Clone(procs)
	timeout := time.NewTimer(f.options.StartTimeout)
	defer timeout.Stop()
	for len(missing) > 0 {
		select {
		case received := <-f.events:
			if received.kind == exited {
				end := f.markExited(received.proc)
				return fmt.Errorf("demo: %s %s before it served; its log ends with\n%s", received.proc.name, end, received.proc.tail())
			}
			missing = slices.DeleteFunc(missing, func(p *proc) bool { return p == received.proc })
			f.progress(before + len(procs) - len(missing))
		case <-timeout.C:
			p := missing[0]
			return fmt.Errorf("demo: %s does not serve after %v (%w); its log ends with\n%s", p.name, f.options.StartTimeout, f.prober.check(ctx, p.readyURL), p.tail())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch restarts exited processes until ctx ends.
func (f *fleet) watch(ctx context.Context) {
	restart := time.NewTimer(0)
	defer restart.Stop()
	for {
		select {
		case e := <-f.events:
			f.handleEvent(ctx, e)
			restart.Reset(f.timeToRestart())
		case <-restart.C:
			f.restart(ctx)
			restart.Reset(f.timeToRestart())
		case <-ctx.Done():
			return
		}
	}
}

// handleEvent prints an event. It schedules the restart of an exited process.
func (f *fleet) handleEvent(ctx context.Context, received event) {
	p := received.proc
	switch received.kind {
	case exited:
		pid := p.pid()
		end := f.markExited(p)
		p.exitedAt = time.Now()
		p.restartAt = p.exitedAt.Add(f.options.RestartAfter)
		if p.isApp {
			f.printLine("%s (pid %d) %s: others count on for it from what it has written. It starts again in %v.", p.name, pid, end, f.options.RestartAfter)
			return
		}
		f.printLine("%s (pid %d) %s: its shards go to the others. It starts again in %v.", p.name, pid, end, f.options.RestartAfter)
		f.startReporter(ctx, p, event{proc: p, kind: failedOver}, f.failoverWaiter(p))
	case ready:
		f.printLine("%s is back (pid %d).", p.name, p.pid())
	case failedOver:
		f.printLine("%s: its shards are served again, by the others, %v after it ended.", p.name, received.took.Round(10*time.Millisecond))
	}
}

// markExited records that a process has exited, and describes how.
func (f *fleet) markExited(p *proc) string {
	state := p.cmd.ProcessState
	p.cmd = nil
	p.stopReporter()
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return fmt.Sprintf("was ended by a signal (%v)", s.Signal())
	}
	return fmt.Sprintf("ended (%v)", state)
}

// timeToRestart returns the time until the next scheduled restart, or one hour if none is scheduled.
func (f *fleet) timeToRestart() time.Duration {
	next := time.Hour
	for _, p := range f.all() {
		if !p.restartAt.IsZero() {
			next = min(next, time.Until(p.restartAt))
		}
	}
	return max(next, 0)
}

// restart starts the processes whose restart is due.
func (f *fleet) restart(ctx context.Context) {
	for _, p := range f.all() {
		if p.restartAt.IsZero() || time.Until(p.restartAt) > 0 {
			continue
		}
		if err := f.start(ctx, p); err != nil {
			p.restartAt = time.Now().Add(f.options.RestartAfter)
			f.printLine("%s cannot start, trying again in %v: %v", p.name, f.options.RestartAfter, err)
		}
	}
}

// stop stops all processes and returns when they have exited. Nodes stop first, so that their apps
// complete the running requests.
func (f *fleet) stop(announce bool) {
	if announce {
		f.printLine("Stopping …")
	}
	f.terminate(f.nodes, f.options.StopTimeout)
	f.terminate(f.apps, f.options.StopTimeout)
	for _, p := range f.all() {
		if p.stopReporter != nil {
			p.stopReporter()
		}
	}
	f.reporters.Wait()
}

// terminate sends SIGTERM to procs. After timeout it kills the remaining ones.
func (f *fleet) terminate(procs []*proc, timeout time.Duration) {
	signal := func(s os.Signal) {
		for _, p := range procs {
			if p.isRunning() {
				_ = p.cmd.Process.Signal(s) // fails only if the process has just exited
			}
		}
	}
	signal(syscall.SIGTERM)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for slices.ContainsFunc(procs, (*proc).isRunning) {
		select {
		case e := <-f.events:
			if e.kind == exited {
				f.markExited(e.proc)
			}
		case <-timer.C:
			f.printLine("Some did not stop within %v: killing them.", timeout)
			signal(os.Kill)
		}
	}
}

func (f *fleet) all() []*proc { return slices.Concat(f.apps, f.nodes) }
