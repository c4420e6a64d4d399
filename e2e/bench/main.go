//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"

	"shardway/e2e/kit/cluster"
)

func main() {
	// Pdeathsig is bound to the thread that starts a child. The kernel would kill all children
	// if the runtime ended this thread.
	runtime.LockOSThread()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // a program of its own
	}
}

// options are the values of the command-line flags.
type options struct {
	rounds  int
	seconds time.Duration
	only    *regexp.Regexp
	lines   *regexp.Regexp
	node    string
	beside  string
	profile string
	idle    time.Duration
	cases   []testCase // the cases that only selects
}

func run() error {
	var o options
	backend := flag.String("backend", "", "serve fixed answers at this address, and nothing else")
	embedded := flag.Bool("embedded", false, "run a node with the same answers in its process, with the flags of shardway run that follow --")
	only := flag.String("only", "", "regular expression: the cases to run")
	lines := flag.String("lines", "", "regular expression: the lines to run")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each case")
	flag.DurationVar(&o.seconds, "time", 3*time.Second, "time of one measurement")
	flag.StringVar(&o.node, "node", "", "the shardway binary (default: built from this source)")
	flag.StringVar(&o.beside, "beside", "", "another shardway binary, measured in the same rounds of the cases that compare")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the nodes")
	flag.DurationVar(&o.idle, "idle", 0, "measure for this long, in each round, what nodes take without requests, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *backend != "" {
		return serveBackend(ctx, *backend)
	}
	if *embedded {
		return serveEmbedded(ctx, flag.Args())
	}
	var err1, err2 error
	o.only, err1 = regexp.Compile(*only)
	o.lines, err2 = regexp.Compile(*lines)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	o.cases = slices.DeleteFunc(cases(), func(c testCase) bool { return !o.only.MatchString(c.String()) })
	return bench(ctx, o)
}

// bench starts every line, measures the cases, and prints the results. It stops all
// children before it returns.
func bench(ctx context.Context, o options) (err error) {
	dir, err := cluster.Scratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ports, err := cluster.NewPorts()
	if err != nil {
		return err
	}
	defer ports.Close()
	b := &benchRun{dir: dir, ports: ports}
	defer func() { err = errors.Join(err, b.close()) }()
	t := &table{out: os.Stdout}
	if o.idle > 0 {
		return b.idle(ctx, o, t)
	}
	lines, err := b.lines(ctx, o)
	if err != nil {
		return err
	}
	t.machine(lines)
	for _, c := range o.cases {
		if err := b.measure(ctx, c, lines, o, t); err != nil {
			return err
		}
	}
	return nil
}

// measure measures one case in several rounds, and prints the results. In each round, all
// lines that support the case take turns. The first round, -1, only warms up.
func (b *benchRun) measure(ctx context.Context, c testCase, lines []*line, o options, t *table) error {
	script, err := b.script()
	if err != nil {
		return err
	}
	keys, err := b.keys(c.hops)
	if err != nil {
		return err
	}
	var able []*line
	for _, l := range lines {
		if l.takesPart(c) {
			able = append(able, l)
		}
	}
	if len(able) == 0 {
		return nil // -lines selects none
	}
	results := make([][]result, len(able))
	for round := -1; round < o.rounds; round++ {
		for i, l := range able {
			w := wrk{script: script, target: l.target, keys: keys, c: c, time: o.seconds}
			if round < 0 {
				w.time = time.Second // opens connections, fills pools
			}
			stop := func() error { return nil }
			if o.profile != "" && len(l.pprof) > 0 && round == 0 {
				stop = b.profile(ctx, l, filepath.Join(o.profile, c.slug()), o.seconds)
			}
			r, failed := l.measure(ctx, w)
			if c.beside != 0 && failed == nil {
				r, failed = l.measureWithStream(ctx, w, r)
			}
			if err := errors.Join(failed, stop()); err != nil {
				return fmt.Errorf("%s, %v: %w", l.name, c, err)
			}
			if round >= 0 {
				results[i] = append(results[i], r)
			}
		}
	}
	t.add(c, able, results)
	return nil
}
