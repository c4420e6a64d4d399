//go:build linux

package e2e_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/procgroup"
)

// keyRequestsArg is the argument with which this program requests keys from an address, one after
// the other until its input ends. It writes how long each response took, in nanoseconds
// (int64, little-endian), or -1 for a failed request, which ends it. It is a separate
// process, since in one process with thousands of clients it would wait for them.
const keyRequestsArg = "ask-beside"

// serveKeyRequests runs this program if the process was started for it.
func serveKeyRequests() bool {
	if len(os.Args) < 4 || os.Args[1] != keyRequestsArg {
		return false
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	keys := os.Args[3:]
	for i := 0; ctx.Err() == nil; i++ {
		startedAt := time.Now()
		if err := askOnce(context.WithoutCancel(ctx), "http://"+os.Args[2]+"/?key="+keys[i%len(keys)]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			_ = binary.Write(os.Stdout, binary.LittleEndian, int64(-1)) // the error is on the line before
			break
		}
		if binary.Write(os.Stdout, binary.LittleEndian, time.Since(startedAt)) != nil {
			break
		}
	}
	return true
}

func askOnce(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// keyRequests is a process that requests keys in parallel with the WebSockets.
type keyRequests struct {
	stop func() error
	done sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration
	failed bool
}

func startKeyRequests(t *testing.T, addr string, keys []string) *keyRequests {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{keyRequestsArg, addr}, keys...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	wait, err := procgroup.Start(cmd)
	must(t, err)
	a := &keyRequests{}
	a.stop = sync.OnceValue(func() error {
		_ = in.Close()
		a.done.Wait()
		return wait()
	})
	a.done.Go(func() {
		for {
			var elapsed time.Duration
			if binary.Read(out, binary.LittleEndian, &elapsed) != nil {
				return
			}
			a.mu.Lock()
			if a.failed = elapsed < 0; !a.failed {
				a.took = append(a.took, elapsed)
			}
			a.mu.Unlock()
		}
	})
	t.Cleanup(func() { _ = a.stop() })
	return a
}

// end ends the process, and returns how long the responses took.
func (a *keyRequests) end(t *testing.T) string {
	t.Helper()
	if err := a.stop(); err != nil || a.failed {
		t.Errorf("a request failed, as its process reports: %v", err)
	}
	slices.Sort(a.took)
	if len(a.took) == 0 {
		return "no request"
	}
	at := func(share float64) time.Duration {
		return a.took[int(share*float64(len(a.took)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d requests: p50 %v, p99 %v, longest %v", len(a.took), at(0.5), at(0.99), at(1))
}

// some reports whether there are n responses, enough for a percentile.
func (a *keyRequests) some(n int) func() error {
	return func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.took) < n {
			return fmt.Errorf("%d responses of %d", len(a.took), n)
		}
		return nil
	}
}

// measureOnBusyMachine prints how long requests take while other programs keep all processors busy.
// A machine with thousands of simultaneous handovers delays other requests at least as
// much.
func measureOnBusyMachine(t *testing.T, addr string, keys []string) {
	t.Helper()
	for range runtime.NumCPU() {
		hog := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		must(t, hog.Start())
		defer func() {
			_ = hog.Process.Kill()
			_ = hog.Wait() // it was killed
		}()
	}
	busy := startKeyRequests(t, addr, keys)
	cluster.Await(t, "requests during other load", busy.some(5000))
	t.Logf("with idle WebSockets, and one busy loop per processor: %s", busy.end(t))
}
