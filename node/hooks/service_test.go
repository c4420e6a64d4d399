package hooks_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/ack/agent"
	"shardway/node/hooks"
	"shardway/shardmap"
)

// serviceCall returns a call of the kind for the shards 17 and 18 of the service chat, whose range begins at
// shard 1000 of the map.
func serviceCall(kind string) agent.HookCall {
	call := calls()[kind]
	call.Service, call.First = "chat", 1000
	for i := range call.Shards {
		call.Shards[i].Shard += call.First
	}
	return call
}

// An app sees shard numbers within its service, in requests and in its responses.
func TestCallsCountShardsWithinTheService(t *testing.T) {
	for kind := range calls() {
		var request *http.Request
		var body string
		app := wired("/hooks", func(c net.Conn) {
			request, _ = http.ReadRequest(bufio.NewReader(c))
			text, _ := io.ReadAll(request.Body)
			body = string(text)
			_, _ = io.WriteString(c, ok(`{"failed":{"17":"full"},"absent":[]}`))
		})
		app.Service = "chat"
		call := serviceCall(kind)
		result := app.Do(t.Context(), call)
		if result.Err != nil {
			t.Fatalf("%s: %v", kind, result.Err)
		}
		if request.Header.Get("Shardway-Service") != "chat" || !strings.Contains(body, `{"shard":17,`) || strings.Contains(body, "1017") {
			t.Errorf("%s: service %q, body %s", kind, request.Header.Get("Shardway-Service"), body)
		}
		same(t, kind+": failed", result.Failed, map[shardmap.Shard]string{1017: "full"})
		if call.Shards[0].Shard != 1017 {
			t.Errorf("%s: the call of the caller names shard %d", kind, call.Shards[0].Shard)
		}
	}
	result := answeringService("chat", ok(`{"notes":{"17":"czM6Ly94"},"absent":[18]}`)).Do(t.Context(), serviceCall("release"))
	if string(result.Notes[1017]) != "s3://x" || len(result.Notes) != 1 || !result.Absent[1018] || len(result.Absent) != 1 {
		t.Errorf("release: %+v", result)
	}
	for _, answer := range []string{`{"failed":{"1017":"full"}}`, `{"absent":[1018]}`, `{"notes":{"1017":"czM6Ly94"}}`} {
		if result = answeringService("chat", ok(answer)).Do(t.Context(), serviceCall("release")); result.Err == nil || len(result.Failed) > 0 {
			t.Errorf("%s with the number in the map: %+v", answer, result)
		}
	}
}

// answeringService is answering for the app of a service.
func answeringService(service, raw string) *hooks.HTTP {
	client := answering(raw)
	client.Service = service
	return client
}

// A call for shards of another service is never sent. Shards of two services have equal numbers within their
// services.
func TestCallReachesNoAppOfAnotherService(t *testing.T) {
	for _, tc := range []struct {
		app, call string
		mayCall   bool
	}{
		{"chat", "chat", true},
		{"search", "chat", false},
		{"default", "chat", false},
		{"", "chat", false},
		{"chat", "", false},
		{"default", "", true}, // the cluster does not have a list of services yet
		{"", "default", true}, // the cluster has a list, and the node has no configured services
	} {
		for kind := range calls() {
			dials := 0
			app := wired("/hooks", func(c net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, ok("{}"))
			})
			dial := app.Dial
			app.Dial = func(ctx context.Context) (net.Conn, error) {
				dials++
				return dial(ctx)
			}
			app.Service = tc.app
			call := serviceCall(kind)
			call.Service = tc.call
			result := (&hooks.Instances{Calls: []*hooks.HTTP{app}}).Do(t.Context(), call)
			if tc.mayCall != (dials == 1) || tc.mayCall != (result.Err == nil) {
				t.Errorf("%s for %q to an app of %q: %d calls, %v", kind, tc.call, tc.app, dials, result.Err)
			}
			if !tc.mayCall && (!result.Refused || !strings.Contains(result.Err.Error(), "shard 17 belongs to service ")) {
				t.Errorf("%s for %q to an app of %q: %+v", kind, tc.call, tc.app, result)
			}
		}
	}
	probe := agent.HookCall{Kind: agent.HookAcquire, Seq: 1}
	if result := answeringService("chat", ok("{}")).Do(t.Context(), probe); result.Err != nil {
		t.Errorf("a probe has no shards: %v", result.Err)
	}
}

// A function also gets shard numbers within its service.
func TestFunctionCountsShardsWithinTheService(t *testing.T) {
	function := &hooks.Func{Log: zerolog.Nop(), Call: func(_ context.Context, call agent.HookCall) agent.HookResult {
		if call.Shards[0].Shard != 17 {
			return agent.HookResult{Failed: map[shardmap.Shard]string{call.Shards[0].Shard: "unknown"}}
		}
		return agent.HookResult{Notes: map[shardmap.Shard][]byte{17: []byte("there")}, Absent: map[shardmap.Shard]bool{18: true}}
	}}
	result := function.Do(t.Context(), serviceCall("release"))
	if result.Err != nil || len(result.Failed) > 0 || string(result.Notes[1017]) != "there" || !result.Absent[1018] {
		t.Errorf("release: %+v", result)
	}
}
