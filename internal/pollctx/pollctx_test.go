package pollctx_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/pollctx"
)

// Nobody ends the context here but who asks it.
func TestWhoAsksIsToldByTheClock(t *testing.T) {
	for name, told := range map[string]func(context.Context) bool{
		"Err": func(ctx context.Context) bool { return ctx.Err() != nil },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
		"a context made of it": func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return ctx.Err() != nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var over atomic.Bool
			ctx, cancel := pollctx.Context(t.Context(), over.Load)
			defer cancel()
			if told(ctx) {
				t.Fatal("it is over from the beginning")
			}
			over.Store(true)
			if !told(ctx) {
				t.Error("it is over, and says that it is not")
			}
			over.Store(false)
			if !told(ctx) {
				t.Error("it was over, and goes on")
			}
		})
	}
}

// Who waits hears of it from who asks; and nothing is asked for after the end.
func TestWhoWaitsHearsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		asked := 0
		ctx, cancel := pollctx.Context(t.Context(), func() bool {
			asked++
			return over.Load()
		})
		defer cancel()
		derived, stop := context.WithCancel(ctx)
		defer stop()
		waits := ctx.Done()
		over.Store(true)
		_ = ctx.Err()
		<-waits
		<-derived.Done()
		before := asked
		if ctx.Err() == nil || asked != before {
			t.Errorf("after its end: %v, asked %d times", ctx.Err(), asked-before)
		}
	})
}

func TestItEndsWithItsParentAndByCancel(t *testing.T) {
	parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	ctx, cancel := pollctx.Context(parent, func() bool { return false })
	other, stop := pollctx.Context(parent, func() bool { return false })
	defer stop()
	cancel()
	if ctx.Err() == nil || other.Err() != nil {
		t.Errorf("after cancel: %v, the other %v", ctx.Err(), other.Err())
	}
	end()
	if <-other.Done(); other.Err() == nil || other.Value(key{}) != "kept" {
		t.Errorf("after its parent: %v, %v", other.Err(), other.Value(key{}))
	}
}

type key struct{}
