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
	rounds      int
	duration    time.Duration
	caseFilter  *regexp.Regexp
	setupFilter *regexp.Regexp
	node        string        // path of the binary; empty means that it is built from this source
	otherNode   string        // path of a binary for comparison; empty means none
	profile     string        // directory of CPU profiles; empty means no profiles
	idleTime    time.Duration // zero means that the cases are measured, and not idle nodes
	cases       []testCase    // the cases that caseFilter selects
}

// run parses the flags. It then measures the selected cases, or runs one of the servers that a measurement needs.
func run() error {
	var opts options
	backend := flag.String("backend", "", "serve fixed answers at this address, and nothing else")
	embedded := flag.Bool("embedded", false, "run a node with the same answers in its process, with the flags of shardway run that follow --")
	only := flag.String("only", "", "regular expression: the cases to run")
	setups := flag.String("lines", "", "regular expression: the lines to run")
	flag.IntVar(&opts.rounds, "rounds", 5, "rounds of each case")
	flag.DurationVar(&opts.duration, "time", 3*time.Second, "time of one measurement")
	flag.StringVar(&opts.node, "node", "", "the shardway binary (default: built from this source)")
	flag.StringVar(&opts.otherNode, "beside", "", "another shardway binary, measured in the same rounds of the cases that compare")
	flag.StringVar(&opts.profile, "profile", "", "directory for CPU profiles of the nodes")
	flag.DurationVar(&opts.idleTime, "idle", 0, "measure for this long, in each round, what nodes take without requests, and nothing else")
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
	opts.caseFilter, err1 = regexp.Compile(*only)
	opts.setupFilter, err2 = regexp.Compile(*setups)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	opts.cases = slices.DeleteFunc(cases(), func(tc testCase) bool { return !opts.caseFilter.MatchString(tc.String()) })
	return measureAll(ctx, opts)
}

// measureAll starts every setup, measures the cases, and prints the results. It stops all
// children before it returns.
func measureAll(ctx context.Context, opts options) (err error) {
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
	results := &table{out: os.Stdout}
	if opts.idleTime > 0 {
		return run.measureIdleClusters(ctx, opts, results)
	}
	setups, err := run.startSetups(ctx, opts)
	if err != nil {
		return err
	}
	results.printMachine(setups)
	for _, tc := range opts.cases {
		if err := run.measureCase(ctx, tc, setups, opts, results); err != nil {
			return err
		}
	}
	return nil
}

// measureCase measures one case in several rounds, and prints the results. In each round, all
// setups that support the case take turns. The first round only warms up.
func (b *benchRun) measureCase(ctx context.Context, test testCase, setups []*setup, opts options, output *table) error {
	script, err := b.writeScript()
	if err != nil {
		return err
	}
	keys, err := b.keyFile(test.hops)
	if err != nil {
		return err
	}
	selected := slices.DeleteFunc(slices.Clone(setups), func(candidate *setup) bool { return !candidate.supports(test) })
	if len(selected) == 0 {
		return nil // -lines selects none
	}
	results := make([][]result, len(selected))
	for round := warmUpRound; round < opts.rounds; round++ {
		for i, setup := range selected {
			load := wrkRun{script: script, target: setup.target, keys: keys, testCase: test, duration: opts.duration}
			measured, err := b.measureRound(ctx, setup, load, round, opts.profile)
			if err != nil {
				return fmt.Errorf("%s, %v: %w", setup.name, test, err)
			}
			if round != warmUpRound {
				results[i] = append(results[i], measured)
			}
		}
	}
	output.printCase(test, selected, results)
	return nil
}

// warmUpRound is the number of the round before the first measured round. Its results are not used.
const warmUpRound = -1

// measureRound measures a setup once. In the first round, it writes CPU profiles of the nodes into
// profileDir, if that is not empty.
func (b *benchRun) measureRound(ctx context.Context, measuredSetup *setup, load wrkRun, round int, profileDir string) (result, error) {
	if round == warmUpRound {
		load.duration = time.Second // opens connections, fills pools
	}
	endProfile := func() error { return nil }
	if profileDir != "" && round == 0 && len(measuredSetup.adminAddrs) > 0 {
		endProfile = b.profile(ctx, measuredSetup, filepath.Join(profileDir, load.testCase.slug()), load.duration)
	}
	measured, err := measuredSetup.measure(ctx, load)
	if load.testCase.stream != 0 && err == nil {
		measured, err = measuredSetup.measureWithStream(ctx, load, measured)
	}
	return measured, errors.Join(err, endProfile())
}
