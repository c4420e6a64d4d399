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
	var opts options
	backend := flag.String("backend", "", "serve fixed answers at this address, and nothing else")
	embedded := flag.Bool("embedded", false, "run a node with the same answers in its process, with the flags of shardway run that follow --")
	only := flag.String("only", "", "regular expression: the cases to run")
	lines := flag.String("lines", "", "regular expression: the lines to run")
	flag.IntVar(&opts.rounds, "rounds", 5, "rounds of each case")
	flag.DurationVar(&opts.seconds, "time", 3*time.Second, "time of one measurement")
	flag.StringVar(&opts.node, "node", "", "the shardway binary (default: built from this source)")
	flag.StringVar(&opts.beside, "beside", "", "another shardway binary, measured in the same rounds of the cases that compare")
	flag.StringVar(&opts.profile, "profile", "", "directory for CPU profiles of the nodes")
	flag.DurationVar(&opts.idle, "idle", 0, "measure for this long, in each round, what nodes take without requests, and nothing else")
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
	opts.only, err1 = regexp.Compile(*only)
	opts.lines, err2 = regexp.Compile(*lines)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	opts.cases = slices.DeleteFunc(cases(), func(tc testCase) bool { return !opts.only.MatchString(tc.String()) })
	return bench(ctx, opts)
}

// bench starts every line, measures the cases, and prints the results. It stops all
// children before it returns.
func bench(ctx context.Context, opts options) (err error) {
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
	run := &benchRun{dir: dir, ports: ports}
	defer func() { err = errors.Join(err, run.close()) }()
	t := &table{out: os.Stdout}
	if opts.idle > 0 {
		return run.idle(ctx, opts, t)
	}
	lines, err := run.lines(ctx, opts)
	if err != nil {
		return err
	}
	t.machine(lines)
	for _, tc := range opts.cases {
		if err := run.measure(ctx, tc, lines, opts, t); err != nil {
			return err
		}
	}
	return nil
}

// measure measures one case in several rounds, and prints the results. In each round, all
// lines that support the case take turns. The first round, -1, only warms up.
func (b *benchRun) measure(ctx context.Context, tc testCase, lines []*line, opts options, t *table) error {
	script, err := b.script()
	if err != nil {
		return err
	}
	keys, err := b.keys(tc.hops)
	if err != nil {
		return err
	}
	var able []*line
	for _, l := range lines {
		if l.takesPart(tc) {
			able = append(able, l)
		}
	}
	if len(able) == 0 {
		return nil // -lines selects none
	}
	results := make([][]result, len(able))
	for round := -1; round < opts.rounds; round++ {
		for i, l := range able {
			load := wrk{script: script, target: l.target, keys: keys, c: tc, time: opts.seconds}
			if round < 0 {
				load.time = time.Second // opens connections, fills pools
			}
			stop := func() error { return nil }
			if opts.profile != "" && len(l.pprof) > 0 && round == 0 {
				stop = b.profile(ctx, l, filepath.Join(opts.profile, tc.slug()), opts.seconds)
			}
			measured, failed := l.measure(ctx, load)
			if tc.beside != 0 && failed == nil {
				measured, failed = l.measureWithStream(ctx, load, measured)
			}
			if err := errors.Join(failed, stop()); err != nil {
				return fmt.Errorf("%s, %v: %w", l.name, tc, err)
			}
			if round >= 0 {
				results[i] = append(results[i], measured)
			}
		}
	}
	t.add(tc, able, results)
	return nil
}
