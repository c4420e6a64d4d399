package writelimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/clock"
	"shardway/node/disk"
	"shardway/node/router"
)

// The time for which an app may write follows from the time at which other nodes may take its shards after a crash.
func TestMayWriteEndsBeforeTheNextOwnerMayBegin(t *testing.T) {
	c := new(clock.Manual)
	timing := ack.DefaultTiming()
	r := router.New("a", 4, c, nil)
	l := New(Options{Router: r, Timing: func() ack.Timing { return timing }, Clock: c, Log: zerolog.Nop()})
	for _, x := range []struct {
		takeover         ack.Takeover
		left, afterGrant time.Duration
	}{
		{ack.TakeoverLease, 400 * time.Millisecond, 500 * time.Millisecond},
		{ack.TakeoverTimeout, 2025 * time.Millisecond, 2125 * time.Millisecond},
		{ack.TakeoverImmediate, 0, 0},
	} {
		timing.Takeover = x.takeover
		sent := c.Precise()
		r.SetLease(sent + 500*time.Millisecond)
		r.SetAbortTime(sent + 2125*time.Millisecond)
		c.Advance(100 * time.Millisecond)
		if left, afterGrant := l.timeUntilTakeover(); left != x.left || afterGrant != x.afterGrant {
			t.Errorf("takeover %v: %v of %v, want %v of %v", x.takeover, left, afterGrant, x.left, x.afterGrant)
		}
		c.Advance(3 * time.Second)
		if left, _ := l.timeUntilTakeover(); left != 0 {
			t.Errorf("takeover %v: %v when all is over", x.takeover, left)
		}
	}
}

// askedApp is an app with an alive hook.
type askedApp struct {
	answers []error // nil means a response; the last entry applies to all further calls
	refused bool
	calls   []ackagent.AliveCall
}

func (a *askedApp) CloseAlive() {}

func (a *askedApp) Alive(_ context.Context, c ackagent.AliveCall) (follows, refused bool, err error) {
	err = a.answers[min(len(a.calls), len(a.answers)-1)]
	a.calls = append(a.calls, c)
	return err == nil, err != nil && a.refused, err
}

// A starting node makes its app stop writing before it takes part in the cluster. If the app does not respond, the node waits as long as an
// earlier process has allowed the app to write, regardless of the flags.
func TestStartWaitsUntilTheAppHasStopped(t *testing.T) {
	late := errors.New("no answer")
	earlier := disk.AppAllowance{Boot: 1, Alive: 6 * time.Second}
	for name, x := range map[string]struct {
		app     askedApp
		earlier disk.AppAllowance
		calls   int
		took    time.Duration
	}{
		"it answers":                           {askedApp{answers: []error{nil}}, earlier, 1, 0},
		"it answers later":                     {askedApp{answers: []error{late, late, nil}}, earlier, 3, 200 * time.Millisecond},
		"nothing listens":                      {askedApp{answers: []error{late}, refused: true}, earlier, 60, 6 * time.Second},
		"it does not answer":                   {askedApp{answers: []error{late}}, earlier, 60, 6 * time.Second},
		"nothing was allowed":                  {askedApp{answers: []error{late}}, disk.AppAllowance{Boot: 1}, 0, 0},
		"nothing is known, nothing listens":    {askedApp{answers: []error{late}, refused: true}, disk.AppAllowance{}, 1, 0},
		"nothing is known, it does not answer": {askedApp{answers: []error{late}}, disk.AppAllowance{}, 25, 2500 * time.Millisecond},
		"it asked":                             {askedApp{answers: []error{nil}}, disk.AppAllowance{Boot: 1, Alive: 6 * time.Second, Owned: 2 * time.Second}, 1, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newTestLimit(t, clock.Virtual(), x.earlier, func(disk.AppAllowance) error { return nil })
			l.options.Hooks = []Hook{&x.app}
			began := time.Now()
			l.AwaitEarlier(t.Context())
			if took := time.Since(began); took != x.took || len(x.app.calls) < x.calls || len(x.app.calls) > x.calls+1 {
				t.Errorf("%s: %d calls in %v, want %d in %v", name, len(x.app.calls), took, x.calls, x.took)
			}
			for _, c := range x.app.calls {
				if c.WriteFor != 0 || c.PreviousID != "" {
					t.Errorf("%s: call %+v", name, c)
				}
			}
		})
	}
}

// An app that refuses connections, possibly because it is being restarted, is called again every second. An app without the hook is called
// once a minute.
func TestAppIsCalledAgainSoonUnlessItHasNoSuchHook(t *testing.T) {
	for outcome, want := range map[bool]int{true: 60, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			c := clock.Virtual()
			app := &answeringApp{refused: outcome}
			l := New(Options{Self: "a", Hooks: []Hook{app}, Router: router.New("a", 4, c, nil), Timing: ack.DefaultTiming, InitialTiming: ack.DefaultTiming(), Clock: c, Log: zerolog.Nop()})
			ctx, stop := context.WithTimeout(t.Context(), 59*time.Second)
			defer stop()
			l.RunHook(ctx)
			if app.calls < want || want == 1 && app.calls > 1 {
				t.Errorf("refused %v: %d calls in a minute, want %d", outcome, app.calls, want)
			}
		})
	}
}

// answeringApp refuses connections, or responds that it does not have the hook.
type answeringApp struct {
	refused bool
	calls   int
}

func (a *answeringApp) CloseAlive() {}

func (a *answeringApp) Alive(context.Context, ackagent.AliveCall) (follows, refused bool, err error) {
	a.calls++
	if a.refused {
		return false, true, errors.New("refused")
	}
	return false, false, nil
}

// An instance that hangs must neither end the permission of its siblings nor keep its own one: at the start
// of the node, it is the only reason to wait.
func TestInstanceThatHangsDelaysNoCallOfItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, healthy := &hangingApp{}, &askedApp{answers: []error{nil}}
		l, _ := newTestLimit(t, clock.Virtual(), disk.AppAllowance{Boot: 1, Alive: 6 * time.Second}, func(disk.AppAllowance) error { return nil })
		l.options.Hooks = []Hook{hanging, healthy}
		began := time.Now()
		l.AwaitEarlier(t.Context())
		if took := time.Since(began); took != 6*time.Second || len(healthy.calls) != 1 {
			t.Errorf("the node waited %v for the instance that hangs, and called its sibling %d times", took, len(healthy.calls))
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		l.RunHook(ctx)
		if len(healthy.calls) < 10 {
			t.Errorf("the sibling of an instance that hangs got %d calls in 10 s", len(healthy.calls))
		}
		for i, call := range healthy.calls[2:] {
			if call.PreviousID != healthy.calls[i+1].ID {
				t.Errorf("call %d names %q as the previous one, want %q", i+2, call.PreviousID, healthy.calls[i+1].ID)
			}
		}
		if hanging.previousIDs != "" {
			t.Errorf("calls to the instance that hangs name the previous calls %s of another one", hanging.previousIDs)
		}
	})
}

// hangingApp never responds.
type hangingApp struct{ previousIDs string }

func (h *hangingApp) CloseAlive() {}

func (h *hangingApp) Alive(ctx context.Context, c ackagent.AliveCall) (follows, refused bool, err error) {
	h.previousIDs += c.PreviousID
	<-ctx.Done()
	return false, false, ctx.Err()
}
