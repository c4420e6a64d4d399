//go:build linux

package cluster

import (
	"context"
	"net/url"
	"testing"
)

// Told is one shard of a call of a hook, as an app with state had it.
type Told struct {
	Hook            string
	Shard           int
	Epoch           uint64
	From, To        string
	Released, Again bool
	Err             string
}

// Told returns what the present process of the app was told.
func (a *App) Told(ctx context.Context) (all []Told, err error) {
	return all, a.control(ctx, "/hook-calls", &all)
}

// Sicken makes a hook of the app ill, or well again (e2e/kit/testapp/hooks.go).
func (a *App) Sicken(tb testing.TB, hook, how string) {
	tb.Helper()
	if err := a.control(tb.Context(), "/hook-fault?"+url.Values{"hook": {hook}, "how": {how}}.Encode(), nil); err != nil {
		tb.Fatal(err)
	}
}

// Flush has the app write all that it holds.
func (a *App) Flush(tb testing.TB) {
	tb.Helper()
	if err := a.control(tb.Context(), "/flush", nil); err != nil {
		tb.Fatal(err)
	}
}
