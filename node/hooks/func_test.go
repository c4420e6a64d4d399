package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/node/hooks"
	"shardway/shardmap"
)

// A failure of a hook function is an error of its own call, and affects no other call.
func TestFunctionsThatBreak(t *testing.T) {
	for name, test := range map[string]struct {
		do  func(context.Context, agent.HookCall) agent.HookResult
		err string
	}{
		"panic":  {func(context.Context, agent.HookCall) agent.HookResult { panic("ouch") }, "hook release: the function panicked: ouch"},
		"goexit": {func(context.Context, agent.HookCall) agent.HookResult { runtime.Goexit(); return agent.HookResult{} }, "hook release: the function ended its goroutine instead of returning"},
		"long": {func(context.Context, agent.HookCall) agent.HookResult {
			return agent.HookResult{Err: errors.New(strings.Repeat("x\n", 1<<20))}
		}, "hook release: x x x"},
		"error": {func(context.Context, agent.HookCall) agent.HookResult {
			return agent.HookResult{Err: errors.New("disk full")}
		}, "hook release: disk full"},
		"foreign": {func(context.Context, agent.HookCall) agent.HookResult {
			return agent.HookResult{Failed: map[shardmap.Shard]string{5: "x"}}
		}, `hook release: "Failed" of the app's answer names shard 5`},
		"foreign note": {func(context.Context, agent.HookCall) agent.HookResult {
			return agent.HookResult{Notes: map[shardmap.Shard][]byte{5: nil}}
		}, `hook release: "Notes" of the app's answer names shard 5`},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			r := (&hooks.Func{Call: test.do, Log: zerolog.New(&log)}).Do(t.Context(), calls()["release"])
			if r.Err == nil || !strings.HasPrefix(r.Err.Error(), test.err) || len(r.Err.Error()) > 520 {
				t.Errorf("%+v, want %q", r, test.err)
			}
			if name == "panic" && (!strings.Contains(log.String(), "func_test.go") || !strings.Contains(log.String(), `"message":"app panicked"`)) {
				t.Errorf("the log says %q: nobody finds the panic", log.String())
			}
		})
	}
}

// The results of a function have the same limits as responses over the network.
func TestFunctionsAnswerWithinTheBounds(t *testing.T) {
	r := (&hooks.Func{Call: func(context.Context, agent.HookCall) agent.HookResult {
		return agent.HookResult{Notes: map[shardmap.Shard][]byte{17: make([]byte, ack.MaxNote+1), 18: make([]byte, ack.MaxNote)}}
	}}).Do(t.Context(), calls()["release"])
	if r.Err != nil || len(r.Notes[18]) != ack.MaxNote || !strings.HasPrefix(r.Failed[17], "the note has 1025 bytes") {
		t.Errorf("%v, %v", r.Err, r.Failed)
	}
}

// A failed shard is reported with a reason, and results for shards that are not part of the call are ignored.
func TestHookFuncsReportFailures(t *testing.T) {
	answers := func(r agent.HookResult) agent.HookResult {
		return (&hooks.Func{Call: func(context.Context, agent.HookCall) agent.HookResult { return r }}).Do(t.Context(), calls()["release"])
	}
	r := answers(agent.HookResult{Failed: map[shardmap.Shard]string{17: "disk\nfull", 18: ""}})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	same(t, "failed", r.Failed, map[shardmap.Shard]string{17: "disk full", 18: "the app does not say why"})
	for name, r := range map[string]agent.HookResult{
		"Failed": answers(agent.HookResult{Failed: map[shardmap.Shard]string{19: "no"}}),
		"Notes":  answers(agent.HookResult{Notes: map[shardmap.Shard][]byte{19: []byte("x")}}),
	} {
		if r.Err == nil || !strings.Contains(r.Err.Error(), name) || !strings.Contains(r.Err.Error(), "shard 19") {
			t.Errorf("%s of a shard that was not asked of: %+v", name, r)
		}
	}
}

// Notes count only if they are the result of a release.
func TestNotesOfFunctionsAreThoseOfReleases(t *testing.T) {
	app := &hooks.Func{Call: func(context.Context, agent.HookCall) agent.HookResult {
		return agent.HookResult{Notes: map[shardmap.Shard][]byte{17: []byte("s3://x")}}
	}}
	for name, call := range calls() {
		if r := app.Do(t.Context(), call); r.Err != nil || (len(r.Notes) > 0) != (name == "release") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A function that ignores its context continues, and so does its call: its shards must not be given up as long as it may still write.
func TestFunctionRunsUntilItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, returns := make(chan struct{}), make(chan struct{})
		app := &hooks.Func{Call: func(ctx context.Context, _ agent.HookCall) agent.HookResult {
			<-ctx.Done()
			close(told)
			<-returns
			return agent.HookResult{}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan agent.HookResult, 1)
		go func() { result <- app.Do(ctx, calls()["release"]) }()
		cancel()
		<-told
		synctest.Wait()
		select {
		case r := <-result:
			t.Fatalf("the function runs, and its call has ended: %+v", r)
		default:
		}
		close(returns)
		if r := <-result; r.Err != nil {
			t.Errorf("what it did after all counts: %+v", r)
		}
	})
}
