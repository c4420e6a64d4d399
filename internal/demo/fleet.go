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

// fleet supervises the demo's processes. All but the goroutines that report
// events runs on the goroutine that called Run.
type fleet struct {
	o      Options
	layout layout
	dir    string
	out    *output
	prober prober

	apps, nodes []*proc
	events      chan event
	reporters   sync.WaitGroup
}

// event is what a reporter tells the supervisor.
type event struct {
	proc *proc
	what what
	took time.Duration // healed: since the proc died
}

type what int

const (
	exited what = iota + 1 // the process has ended
	ready                  // it serves
	healed                 // its shards are served by others
)

// run starts everything, tells the user and watches until ctx ends. It leaves
// the processes running.
func (f *fleet) run(ctx context.Context) error {
	f.progress(0)
	for i, stage := range [][]*proc{f.apps, f.nodes} {
		for _, p := range stage {
			if err := f.start(ctx, p); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
		}
		if err := f.await(ctx, stage, i*len(f.apps)); err != nil {
			return err
		}
	}
	f.welcome(ctx)
	f.watch(ctx)
	return nil
}

// start starts a process with the goroutines that report about it. The reporter
// of its end runs as long as the process; the other one until its end is known.
func (f *fleet) start(ctx context.Context, p *proc) error {
	var echo io.Writer
	if f.o.Verbose {
		echo = f.out
	}
	wait, err := p.start(f.o.Program, f.o.Env, echo)
	if err != nil {
		return err
	}
	f.reporters.Go(func() {
		wait()
		f.events <- event{proc: p, what: exited} // stop receives until none runs
	})
	f.report(ctx, p, event{proc: p, what: ready}, func(ctx context.Context) error { return f.prober.wait(ctx, p.ready) })
	return nil
}

// report has an event told once wait returns without an error, unless the next
// change of p's state comes first.
func (f *fleet) report(ctx context.Context, p *proc, e event, wait func(ctx context.Context) error) {
	if p.stop != nil {
		p.stop()
	}
	ctx, cancel := context.WithCancel(ctx)
	p.stop = cancel
	begun := time.Now()
	f.reporters.Go(func() {
		if wait(ctx) != nil {
			return
		}
		e.took = time.Since(begun)
		select {
		case f.events <- e:
		case <-ctx.Done():
		}
	})
}

func (f *fleet) progress(done int) {
	if f.o.Progress != nil {
		f.o.Progress(done, len(f.apps)+len(f.nodes))
	}
}

// await returns once every process of the list serves, beside so many before it. One that
// ends instead, or takes too long, fails the demo with its last words.
func (f *fleet) await(ctx context.Context, procs []*proc, before int) error {
	missing := slices.Clone(procs)
	timeout := time.NewTimer(f.o.StartTimeout)
	defer timeout.Stop()
	for len(missing) > 0 {
		select {
		case e := <-f.events:
			if e.what == exited {
				end := f.ended(e.proc)
				return fmt.Errorf("demo: %s %s before it served; its log ends with\n%s", e.proc.name, end, e.proc.tail())
			}
			missing = slices.DeleteFunc(missing, func(p *proc) bool { return p == e.proc })
			f.progress(before + len(procs) - len(missing))
		case <-timeout.C:
			p := missing[0]
			return fmt.Errorf("demo: %s does not serve after %v (%w); its log ends with\n%s", p.name, f.o.StartTimeout, f.prober.ask(ctx, p.ready), p.tail())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch starts again what dies, until ctx ends.
func (f *fleet) watch(ctx context.Context) {
	restart := time.NewTimer(0)
	defer restart.Stop()
	for {
		select {
		case e := <-f.events:
			f.handle(ctx, e)
			restart.Reset(f.untilRestart())
		case <-restart.C:
			f.restart(ctx)
			restart.Reset(f.untilRestart())
		case <-ctx.Done():
			return
		}
	}
}

func (f *fleet) handle(ctx context.Context, e event) {
	p := e.proc
	switch e.what {
	case exited:
		pid := p.pid()
		end := f.ended(p)
		p.died = time.Now()
		p.restartAt = p.died.Add(f.o.RestartAfter)
		if p.isApp {
			f.say("%s (pid %d) %s: others count on for it from what it has written. It starts again in %v.", p.name, pid, end, f.o.RestartAfter)
			return
		}
		f.say("%s (pid %d) %s: its shards go to the others. It starts again in %v.", p.name, pid, end, f.o.RestartAfter)
		f.report(ctx, p, event{proc: p, what: healed}, f.healing(p))
	case ready:
		f.say("%s is back (pid %d).", p.name, p.pid())
	case healed:
		f.say("%s: its shards are served again, by the others, %v after it ended.", p.name, e.took.Round(10*time.Millisecond))
	}
}

// ended notes that a process has ended, and says how.
func (f *fleet) ended(p *proc) string {
	state := p.cmd.ProcessState
	p.cmd = nil
	p.stop()
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return fmt.Sprintf("was ended by a signal (%v)", s.Signal())
	}
	return fmt.Sprintf("ended (%v)", state)
}

// untilRestart is the time to the next restart that is due, or long.
func (f *fleet) untilRestart() time.Duration {
	next := time.Hour
	for _, p := range f.all() {
		if !p.restartAt.IsZero() {
			next = min(next, time.Until(p.restartAt))
		}
	}
	return max(next, 0)
}

// restart starts what is due.
func (f *fleet) restart(ctx context.Context) {
	for _, p := range f.all() {
		if p.restartAt.IsZero() || time.Until(p.restartAt) > 0 {
			continue
		}
		if err := f.start(ctx, p); err != nil {
			p.restartAt = time.Now().Add(f.o.RestartAfter)
			f.say("%s cannot start, trying again in %v: %v", p.name, f.o.RestartAfter, err)
		}
	}
}

// stop ends every process: the nodes first, so that their apps answer what still
// runs. It returns when all have ended.
func (f *fleet) stop(loud bool) {
	if loud {
		f.say("Stopping …")
	}
	f.end(f.nodes, f.o.StopTimeout)
	f.end(f.apps, f.o.StopTimeout)
	for _, p := range f.all() {
		if p.stop != nil {
			p.stop()
		}
	}
	f.reporters.Wait()
}

// end asks processes to stop, and kills by pid those that do not in time.
func (f *fleet) end(procs []*proc, patience time.Duration) {
	signal := func(s os.Signal) {
		for _, p := range procs {
			if p.running() {
				_ = p.cmd.Process.Signal(s) // fails only if it has just ended
			}
		}
	}
	signal(syscall.SIGTERM)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for slices.ContainsFunc(procs, (*proc).running) {
		select {
		case e := <-f.events:
			if e.what == exited {
				f.ended(e.proc)
			}
		case <-timeout.C:
			f.say("Some did not stop within %v: killing them.", patience)
			signal(os.Kill)
		}
	}
}

func (f *fleet) all() []*proc { return slices.Concat(f.apps, f.nodes) }
