package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status) //nolint:forbidigo // a separate program
}

// run runs the tests, and repeats those that may have failed because the machine was not available.
// It measures the availability of the machine in the meantime. It returns the exit status of the command.
func run(ctx context.Context, args []string, out io.Writer) (status int, err error) {
	testRunner := runner{out: out}
	flags := testRunner.flags()
	if flags.Parse(args) != nil { // Parse has printed the error
		return 2, nil
	}
	var ok bool
	testRunner.sumCommand, testRunner.testFlags, ok = splitArgs(flags.Args(), "--")
	if testRunner.jsonFile == "" || len(testRunner.sumCommand) == 0 || !ok {
		return 2, errors.New("usage: retest -json FILE [-never REGEXP] [-repeats N] [-within D] [-until SECONDS] -- GOTESTSUM [FLAG...] -- [FLAG...] PACKAGE")
	}
	var monitor machineMonitor
	testRunner.unavailability = monitor.unavailability
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); monitor.watch(watching) }()
	defer func() { stop(); <-done }()
	return testRunner.run(ctx)
}

// flags returns the flags of the command, which set the fields of the runner.
func (r *runner) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("retest", flag.ContinueOnError)
	flags.StringVar(&r.jsonFile, "json", "", "file for the output of `go test -json`")
	flags.IntVar(&r.maxRepeats, "repeats", 40, "maximum number of repeated tests")
	flags.Func("never", "regular expression: packages whose tests use virtual time, and are not repeated", func(s string) (err error) {
		r.neverRepeat, err = regexp.Compile(s)
		return err
	})
	flags.DurationVar(&r.maxDuration, "within", 6*time.Minute, "maximum time for repeated tests")
	flags.Func("until", "time after which no test is repeated, in seconds since 1970 (default: only -within)", func(s string) error {
		if s == "" {
			return nil
		}
		at, err := strconv.ParseInt(s, 10, 64)
		r.deadline = time.Unix(at, 0)
		return err
	})
	return flags
}

// runner runs tests and repeats them.
type runner struct {
	sumCommand     []string       // gotestsum with its flags
	testFlags      []string       // flags and packages of go test
	jsonFile       string         // file for the output of go test -json
	neverRepeat    *regexp.Regexp // packages whose tests are not repeated; nil means none
	maxRepeats     int
	maxDuration    time.Duration // maximum time for repeated tests
	deadline       time.Time     // end of the time for repeated tests; zero means that only maxDuration applies
	unavailability func(from, until time.Time) Unavailability
	out            io.Writer
}

// run runs the tests, and repeats the failed ones if all of them may be repeated. The status is 0 if
// each test has passed at last.
func (r *runner) run(ctx context.Context) (status int, err error) {
	status, err = r.runTests(ctx, r.jsonFile, r.testFlags)
	if err != nil || status == 0 || ctx.Err() != nil {
		return status, err
	}
	found, err := readFile(r.jsonFile)
	if err != nil || !r.mayRepeat(found) {
		return status, err
	}
	ctx, stop := context.WithDeadline(ctx, r.repeatDeadline())
	defer stop()
	ok, err := r.repeatAll(ctx, found)
	if err != nil || !ok {
		return status, err
	}
	return 0, nil
}

// repeatDeadline returns the time after which no test is repeated.
func (r *runner) repeatDeadline() time.Time {
	end := time.Now().Add(r.maxDuration)
	if !r.deadline.IsZero() && r.deadline.Before(end) {
		return r.deadline
	}
	return end
}

// repeatAll repeats the failed packages and tests. It returns false when one of them has failed again, or
// when the deadline of ctx has passed.
func (r *runner) repeatAll(ctx context.Context, found results) (bool, error) {
	deadline, _ := ctx.Deadline()
	isOver := func(name string) bool {
		if time.Now().Before(deadline) {
			return false
		}
		r.printf("not repeated: %s: no time is left", name)
		return true
	}
	for _, pkg := range found.detectorCrashes {
		if isOver(pkg) {
			return false, nil
		}
		if ok, err := r.repeatPackage(ctx, pkg); err != nil || !ok {
			return false, err
		}
	}
	for _, failed := range found.failedTests {
		if isOver(failed.String()) {
			return false, nil
		}
		if ok, err := r.repeat(ctx, failed); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// mayRepeat reports whether all failed tests may be repeated. If not, it prints the reason for each
// test that may not.
func (r *runner) mayRepeat(found results) bool {
	ok := len(found.failedTests)+len(found.detectorCrashes) > 0
	for _, pkg := range found.brokenPackages {
		ok = false
		r.printf("not repeated: %s failed, and none of its tests did", pkg)
	}
	for _, failed := range found.failedTests {
		if reason := r.reasonNotToRepeat(failed); reason != "" {
			ok = false
			r.printf("not repeated: %s: %s", failed, reason)
		}
	}
	if ok && len(found.failedTests) > r.maxRepeats {
		ok = false
		r.printf("not repeated: %d tests failed, and at most %d are repeated", len(found.failedTests), r.maxRepeats)
	}
	return ok
}

// reasonNotToRepeat returns why a failed test must not be repeated. Empty means that it may be repeated.
func (r *runner) reasonNotToRepeat(failed failure) string {
	unavailable := r.unavailability(failed.from, failed.until)
	switch {
	case r.neverRepeat != nil && r.neverRepeat.MatchString(failed.pkg):
		return "it uses virtual time"
	case failed.noRetryReason != "":
		return failed.noRetryReason
	case !unavailable.ExcusesFailure():
		return fmt.Sprintf("it failed while the machine was available (%v)", unavailable)
	}
	return ""
}

// repeatPackage runs all tests of a package again, once, because the race detector failed and ended
// them. It returns false if the detector fails again.
func (r *runner) repeatPackage(ctx context.Context, pkg string) (bool, error) {
	r.printf("repeated: %s: the race detector failed", pkg)
	file := fmt.Sprintf("%s.%s.json", strings.TrimSuffix(r.jsonFile, ".json"), path.Base(pkg))
	status, err := r.runTests(ctx, file, packageArgs(r.testFlags, pkg))
	return err == nil && status == 0, err
}

// repeat runs a failed test alone. If the test fails while the machine is unavailable, it runs once
// more. repeat returns true if the test passed.
func (r *runner) repeat(ctx context.Context, failed failure) (bool, error) {
	const maxTries = 2
	unavailable := r.unavailability(failed.from, failed.until)
	for try := 1; ; try++ {
		r.printf("repeated (%d): %s: the machine was not available (%v)", try, failed, unavailable)
		file := fmt.Sprintf("%s.%s.%d.json", strings.TrimSuffix(r.jsonFile, ".json"), failed.test, try)
		from := time.Now()
		status, err := r.runTests(ctx, file, testArgs(r.testFlags, failed))
		if err != nil || status == 0 {
			return status == 0, err
		}
		found, err := readFile(file)
		unavailable = r.unavailability(from, time.Now())
		if err != nil || try == maxTries || ctx.Err() != nil || !r.mayRepeat(found) {
			return false, err
		}
	}
}

// runTests runs `go test` with these arguments by gotestsum, which writes the events into a file. It
// returns the exit status.
func (r *runner) runTests(ctx context.Context, jsonFile string, testArgs []string) (int, error) {
	args := slices.Concat(r.sumCommand[1:], []string{"--jsonfile", jsonFile, "--"}, testArgs)
	return r.start(ctx, r.out, r.sumCommand[0], args...)
}

// start runs a command and returns its exit status.
func (r *runner) start(ctx context.Context, out io.Writer, name string, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the command of the caller
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	if err != nil {
		return 1, fmt.Errorf("retest: %w", err)
	}
	return 0, nil
}

func (r *runner) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "== "+format+"\n", args...)
}

// splitArgs returns the arguments before and after the first separator. found is false if there is no
// separator.
func splitArgs(args []string, sep string) (before, after []string, found bool) {
	i := slices.Index(args, sep)
	if i < 0 {
		return args, nil, false
	}
	return args[:i], args[i+1:], true
}

// packageArgs replaces the packages in the arguments of `go test` by one package.
func packageArgs(args []string, pkg string) []string {
	kept := slices.DeleteFunc(slices.Clone(args), isPackage)
	return append(kept, pkg)
}

// isPackage reports whether an argument of `go test` selects packages.
func isPackage(arg string) bool {
	return strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "shardway/")
}

// testArgs replaces the packages and the flags that select tests, in the arguments of `go test`, by
// one test.
func testArgs(args []string, failed failure) []string {
	var remaining []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-run" || arg == "-skip":
			i++ // skip its value
		case strings.HasPrefix(arg, "-run="), strings.HasPrefix(arg, "-skip="):
		case isPackage(arg):
		default:
			remaining = append(remaining, arg)
		}
	}
	return append(remaining, "-run", "^"+failed.test+"$", failed.pkg)
}
