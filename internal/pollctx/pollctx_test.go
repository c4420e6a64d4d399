package pollctx_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/pollctx"
)

// No other goroutine cancels the context in this test.
func TestContextChecksExpiryOnUse(t *testing.T) {
	for name, ended := range map[string]func(context.Context) bool{
		"Err": func(ctx context.Context) bool { return ctx.Err() != nil },
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
		"derived context": func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return ctx.Err() != nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var expired atomic.Bool
			ctx, cancel := pollctx.Context(t.Context(), expired.Load)
			defer cancel()
			if ended(ctx) {
				t.Fatal("context has ended before expiry")
			}
			expired.Store(true)
			if !ended(ctx) {
				t.Error("context has not ended after expiry")
			}
			expired.Store(false)
			if !ended(ctx) {
				t.Error("context continues after it had ended")
			}
		})
	}
}

// A check releases goroutines that wait on Done. After the end no further checks take
// place.
func TestWaitersAreReleasedByCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Bool
		checks := 0
		ctx, cancel := pollctx.Context(t.Context(), func() bool {
			checks++
			return expired.Load()
		})
		defer cancel()
		derived, stop := context.WithCancel(ctx)
		defer stop()
		done := ctx.Done()
		expired.Store(true)
		_ = ctx.Err()
		<-done
		<-derived.Done()
		before := checks
		if ctx.Err() == nil || checks != before {
			t.Errorf("after the end: Err = %v, %d further checks", ctx.Err(), checks-before)
		}
	})
}

func TestContextEndsWithParentAndCancel(t *testing.T) {
	parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	ctx, cancel := pollctx.Context(parent, func() bool { return false })
	other, stop := pollctx.Context(parent, func() bool { return false })
	defer stop()
	cancel()
	if ctx.Err() == nil || other.Err() != nil {
		t.Errorf("after cancel: %v, other context %v", ctx.Err(), other.Err())
	}
	end()
	if <-other.Done(); other.Err() == nil || other.Value(key{}) != "kept" {
		t.Errorf("after the parent ended: %v, value %v", other.Err(), other.Value(key{}))
	}
}

type key struct{}
