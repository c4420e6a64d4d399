package crashdetect

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
	"shardway/internal/simnet"
	"shardway/peer"
)

// redialled is the result of one investigation of node b.
type redialled struct {
	dials []time.Duration // start of each dial, relative to the start of the investigation
	told  int             // the number of refused dials that were reported
	took  time.Duration
}

// redialsOf investigates node b in a bubble, and answers each dial with dial. The callback for a refused dial requests further dials. ctx
// is the context of the run.
func redialsOf(ctx context.Context, dial func(context.Context) (net.Conn, error)) (r redialled) {
	began := time.Now()
	s := NewDetector(peer.New(peer.Options{
		Node: "a", Disk: "d", Boot: 1, Cluster: func() string { return "c" },
		Lookup: func(string) (string, bool) { return "b:1", true },
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			r.dials = append(r.dials, time.Since(began))
			return dial(ctx)
		},
	}), clock.Virtual(), func(string, Process, time.Duration) bool { r.told++; return true })
	s.ctx = ctx
	s.redial("b", Process{Boot: 1, Nonce: 9}) //nolint:contextcheck // redial uses the context of the run
	r.took = time.Since(began)
	return r
}

// Only a refused dial is evidence that a process is gone: a process that does not respond may have a lease. Each dial has a timeout, and
// the number of dials is limited, with increasing delays.
func TestOnlyARefusedRedialIsEvidence(t *testing.T) {
	silence := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, tc := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		each time.Duration
		told int
	}{
		"nobody answers":     {silence, redialTimeout, 0},
		"nobody is there":    {func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }, 0, redials},
		"nobody gets there":  {func(context.Context) (net.Conn, error) { return nil, syscall.EHOSTUNREACH }, 0, 0},
		"a firewall answers": {func(context.Context) (net.Conn, error) { return nil, errors.New("no") }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := redialsOf(t.Context(), tc.dial)
				var want []time.Duration
				var at time.Duration
				for i := range redials {
					want = append(want, at)
					at += tc.each + redialPause<<i
				}
				if !slices.Equal(got.dials, want) || got.told != tc.told {
					t.Errorf("dialled at %v and told %d times, want at %v and %d times", got.dials, got.told, want, tc.told)
				}
			})
		})
	}
}

// The end of the run ends an investigation, also during a delay.
func TestRedialsEndWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), redialPause+redialPause/2)
		defer cancel()
		got := redialsOf(ctx, func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
		if len(got.dials) != 2 || got.took != redialPause+redialPause/2 {
			t.Errorf("dialled at %v, over after %v; want two dials, and the end with the run", got.dials, got.took)
		}
	})
}

// A process that accepts the stream is alive: no further dial follows, and no connection stays open.
func TestRedialThatIsAnsweredIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simnet.New(simnet.Config{Seed: 1})
		here, there := sim.Host("a"), sim.Host("b")
		ln, err := there.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		port := peer.New(peer.Options{Node: "b", Disk: "d", Boot: 1, Cluster: func() string { return "c" }, IsKnownNode: func(string) bool { return true }})
		port.Handle(peer.Control, func(_ context.Context, c *peer.Conn) {
			_, _ = io.Copy(io.Discard, c)
			close(closed)
		})
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- port.Serve(ctx, ln) }()
		got := redialsOf(ctx, func(ctx context.Context) (net.Conn, error) { return here.Dial(ctx, there.Addr(1)) })
		synctest.Wait()
		select {
		case <-closed:
		default:
			t.Error("the stream is left open")
		}
		if len(got.dials) != 1 || got.told != 0 {
			t.Errorf("dialled at %v and told %d times, want one dial that tells nothing", got.dials, got.told)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		sim.Close()
	})
}
