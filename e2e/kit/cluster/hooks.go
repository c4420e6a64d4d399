//go:build linux

package cluster

import (
	"context"
	"net/url"
	"testing"
)

// HookCall is one shard of a hook call, as an app with state recorded it.
type HookCall struct {
	Hook            string
	Shard           int
	Epoch           uint64
	From, To        string
	Released, Again bool
	Err             string
}

// HookCalls returns the hook calls that the current process of the app received.
func (a *App) HookCalls(ctx context.Context) (all []HookCall, err error) {
	return all, a.control(ctx, "/hook-calls", &all)
}

// SetHookFault makes a hook of the app faulty, or removes its fault if fault is "none"
// (e2e/kit/testapp/hooks.go).
func (a *App) SetHookFault(tb testing.TB, hook, fault string) {
	tb.Helper()
	if err := a.control(tb.Context(), "/hook-fault?"+url.Values{"hook": {hook}, "how": {fault}}.Encode(), nil); err != nil {
		tb.Fatal(err)
	}
}

// Flush makes the app write its whole state.
func (a *App) Flush(tb testing.TB) {
	tb.Helper()
	if err := a.control(tb.Context(), "/flush", nil); err != nil {
		tb.Fatal(err)
	}
}
