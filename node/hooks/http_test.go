package hooks_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/node/hooks"
	"shardway/shardmap"
)

// calls returns one call of each kind, with all optional fields.
func calls() map[string]agent.HookCall {
	return map[string]agent.HookCall{
		"release": {Kind: agent.HookRelease, Seq: 7, Map: 12, Shards: []agent.HookShard{
			{Shard: 17, Epoch: 9, To: "b", Cut: 2}, {Shard: 18, Epoch: 10},
		}},
		"acquire": {Kind: agent.HookAcquire, Seq: 8, Map: 13, Shards: []agent.HookShard{
			{Shard: 17, Epoch: 13, From: "a", Released: true, Note: []byte("s3://x")}, {Shard: 18, Epoch: 13, Again: true},
		}},
		"lost": {Kind: agent.HookLost, Seq: 9, Map: 14, Shards: []agent.HookShard{{Shard: 17, Epoch: 13}}},
	}
}

// doer performs a hook call.
type doer interface {
	Do(ctx context.Context, call agent.HookCall) agent.HookResult
}

var (
	_ doer = (*hooks.HTTP)(nil)
	_ doer = (*hooks.Func)(nil)
)

// wired returns hooks for an app that serve runs at the other end of a pipe.
func wired(path string, serve func(net.Conn)) *hooks.HTTP {
	return &hooks.HTTP{Host: "app", Path: path, Disk: "d1", Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			serve(far)
			_ = far.Close()
		}()
		return near, nil
	}}
}

// answering returns hooks for an app that sends the same response to every call.
func answering(raw string) *hooks.HTTP {
	return wired("/hooks", func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, raw)
	})
}

func ok(body string) string {
	return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body
}

// These are the bytes that an app in any language must read.
func TestCallsOnTheWire(t *testing.T) {
	want := map[string]string{
		"release": `{"seq":7,"disk":"d1","map":12,"shards":[{"shard":17,"epoch":9,"to":"b","cut":2},{"shard":18,"epoch":10,"to":null,"cut":0}]}`,
		"acquire": `{"seq":8,"disk":"d1","map":13,"shards":[{"shard":17,"epoch":13,"from":"a","released":true,"note":"czM6Ly94","again":false},` +
			`{"shard":18,"epoch":13,"from":null,"released":false,"note":null,"again":true}]}`,
		"lost": `{"seq":9,"disk":"d1","shards":[{"shard":17,"epoch":13}]}`,
	}
	for name, call := range calls() {
		for _, base := range []string{"", "/_state/hooks"} {
			var got *http.Request
			var body []byte
			app := wired(base, func(c net.Conn) {
				got, _ = http.ReadRequest(bufio.NewReader(c))
				body, _ = io.ReadAll(got.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			if r := app.Do(t.Context(), call); r.Err != nil || len(r.Failed)+len(r.Notes) > 0 {
				t.Fatalf("%s: %+v", name, r)
			}
			if string(body) != want[name] {
				t.Errorf("%s: the body is\n%s, want\n%s", name, body, want[name])
			}
			if got.Method != "POST" || got.RequestURI != base+"/"+name || got.Host != "app" {
				t.Errorf("%s: %s %s of host %s", name, got.Method, got.RequestURI, got.Host)
			}
			for header, value := range map[string]string{"Shardway-Hook": name, "Content-Type": "application/json", "Accept-Encoding": "", "Connection": "close"} {
				if got.Header.Get(header) != value && (header != "Connection" || !got.Close) {
					t.Errorf("%s: %s is %q, want %q", name, header, got.Header.Get(header), value)
				}
			}
		}
	}
}

// A valid response covers each shard. An invalid one is an error that names the next step, and affects only its own call.
func TestAnswersAreReadStrictly(t *testing.T) {
	long := strings.Repeat("AAAA", ack.MaxNote/3+2)
	tests := []struct {
		name, answer string
		failed       map[shardmap.Shard]string
		notes        map[shardmap.Shard]string
		err          string
	}{
		{name: "204", answer: "HTTP/1.1 204 No Content\r\n\r\n"},
		{name: "202", answer: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"},
		{name: "299", answer: "HTTP/1.1 299 Fine\r\nContent-Length: 0\r\n\r\n"},
		{name: "after 100 and 103", answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok("{}")},
		{name: "blanks", answer: ok(" \r\n")},
		{name: "notes", answer: ok(`{"notes":{"17":"czM6Ly94","18":""}}`), notes: map[shardmap.Shard]string{17: "s3://x"}},
		{name: "failures", answer: ok(`{"failed":{"18":"disk full","17":""},"more":[1,{}]}`), failed: map[shardmap.Shard]string{18: "disk full", 17: "the app does not say why"}},
		{name: "nulls", answer: ok(`{"notes":null,"failed":{"17":null}}`)},
		{name: "a note of one that failed", answer: ok(`{"notes":{"17":"czM6Ly94"},"failed":{"17":"no"}}`), failed: map[shardmap.Shard]string{17: "no"}},
		{name: "why in many words", answer: ok(`{"failed":{"17":"a\nb` + strings.Repeat("é", 200) + `"}}`), failed: map[shardmap.Shard]string{17: "a b" + strings.Repeat("é", 126) + " "}},
		{name: "a note beyond the bound", answer: ok(`{"notes":{"17":"` + long + `","18":"czM6Ly94"}}`), notes: map[shardmap.Shard]string{18: "s3://x"}, failed: map[shardmap.Shard]string{17: "the note has 1029 bytes, and may have 1024; let it say where the state is"}},
		{name: "a note with bits behind its last byte", answer: ok(`{"notes":{"17":"QR=="}}`), failed: map[shardmap.Shard]string{17: "the note is not base64; encode it with the standard alphabet and padding"}},
		{name: "a note that is not base64", answer: ok(`{"notes":{"17":"s3://x"}}`), failed: map[shardmap.Shard]string{17: "the note is not base64; encode it with the standard alphabet and padding"}},
		{name: "a note that is not base64 of one that failed", answer: ok(`{"notes":{"17":"s3://x"},"failed":{"17":"no"}}`), failed: map[shardmap.Shard]string{17: "no"}},
		{name: "300", answer: "HTTP/1.1 300 Many\r\nContent-Length: 0\r\n\r\n", err: "with status 300;"},
		{name: "a page for people", answer: "HTTP/1.1 502 Bad\r\nConnection: close\r\n\r\n" + strings.Repeat("x", 300), err: "with status 502: " + strings.Repeat("x", 200) + "; any"},
		{name: "500", answer: "HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\nno\x1bway\n", err: "hook release: the app answered /hooks/release with status 500: no way; any 2xx is success"},
		{name: "404", answer: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", err: "with status 404; any"},
		{name: "redirect", answer: "HTTP/1.1 307 Temporary\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", err: "with status 307;"},
		{name: "switch", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", err: "with status 101;"},
		{name: "huge", answer: ok(`{"x":"` + strings.Repeat("x", 600<<10) + `"}`), err: "is longer than 524288 bytes; a note is to say where the state is"},
		{name: "huge head", answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", err: "hook release: "},
		{name: "huge line", answer: strings.Repeat("\x1b[2J", 10<<10) + "\r\n\r\n", err: "hook release: "},
		{name: "huge status", answer: "HTTP/1.1 " + strings.Repeat("A", 60<<10) + "\r\n\r\n", err: "hook release: "},
		{name: "garbage", answer: "hello\r\n\r\n", err: "hook release: "},
		{name: "nothing", answer: "", err: "hook release: "},
		{name: "broken off", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", err: "hook release: unexpected EOF"},
		{name: "text", answer: ok("OK"), err: `cannot be read: it is not a JSON object`},
		{name: "list", answer: ok(`[]`), err: `it is not a JSON object; answer with an empty body, or like {"notes"`},
		{name: "half", answer: ok(`{"notes":{`), err: "cannot be read"},
		{name: "two", answer: ok(`{}{}`), err: "something follows the object"},
		{name: "twice", answer: ok(`{"failed":{"17":"a","17":"b"}}`), err: `"failed" of the app's response cannot be parsed: "17" is there twice`},
		{name: "wrong type", answer: ok(`{"notes":{"17":5}}`), err: `has for shard 17 something else than a text; answer with`},
		{name: "wrong types", answer: ok(`{"failed":["17"]}`), err: `"failed" of the app's response cannot be parsed: it is not a JSON object`},
		{name: "not asked", answer: ok(`{"notes":{"19":"czM6Ly94"}}`), err: `"notes" of the app's answer names shard 19, of which it was not asked; name those of the call only`},
		{name: "no shard", answer: ok(`{"failed":{"017":"x"}}`), err: `names "017", which is not a shard number;`},
		{name: "far shard", answer: ok(`{"failed":{"70000":"x"}}`), err: `names "70000", which is not a shard number;`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := answering(test.answer).Do(t.Context(), calls()["release"])
			switch {
			case (r.Err != nil) != (test.err != ""), r.Err != nil && !strings.Contains(r.Err.Error(), test.err):
				t.Fatalf("the error is %v, want %q", r.Err, test.err)
			case r.Err != nil && (len(r.Err.Error()) > 520 || strings.ContainsAny(r.Err.Error(), "\n\x1b")):
				t.Errorf("the error of %d bytes is no line for people: %.99q", len(r.Err.Error()), r.Err)
			case r.Refused:
				t.Error("an app that answers has refused nothing")
			}
			same(t, "failed", r.Failed, test.failed)
			got := make(map[shardmap.Shard]string)
			for s, n := range r.Notes {
				got[s] = string(n)
			}
			same(t, "notes", got, test.notes)
		})
	}
}

// A truncated response is ignored, even if its part decodes without an error.
func TestTruncatedHookResponseIsIgnored(t *testing.T) {
	const whole = `{"notes":{"17":"czM6Ly94"},"more":[1,{}],"failed":{"18":"disk full"}}`
	for n := 1; n < len(whole); n++ {
		if r := answering(ok(whole[:n])).Do(t.Context(), calls()["release"]); r.Err == nil {
			t.Errorf("%s is read as %+v", whole[:n], r)
		}
	}
}

func same(t *testing.T, what string, got, want map[shardmap.Shard]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	for s := range want {
		if got[s] != want[s] {
			t.Errorf("%s of shard %d: %q, want %q", what, s, got[s], want[s])
		}
	}
}

// Only a release leaves notes.
func TestNotesOfOtherCallsCountForNothing(t *testing.T) {
	for _, name := range []string{"acquire", "lost"} {
		r := answering(ok(`{"notes":{"17":"czM6Ly94"},"failed":{}}`)).Do(t.Context(), calls()[name])
		if r.Err != nil || len(r.Notes) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The result of a call means that the app, as far as the node can tell, no longer works on it: it is delivered after the connection is
// closed, after a response or a cancellation.
func TestResultComesWhenTheConnectionIsClosed(t *testing.T) {
	for _, cut := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			app := wired("", func(c net.Conn) {
				_, _ = io.Copy(io.Discard, c) // and never responds
				close(closed)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			result := make(chan agent.HookResult, 1)
			began := time.Now()
			go func() { result <- app.Do(ctx, calls()["acquire"]) }()
			synctest.Wait()
			select {
			case <-closed:
				t.Fatal("the connection was closed within the time")
			case r := <-result:
				t.Fatalf("a result without an answer: %+v", r)
			default:
			}
			want, took := hooks.ErrTimeout, time.Minute
			if cut {
				want, took = hooks.ErrAborted, 0
				cancel()
			}
			r := <-result
			synctest.Wait()
			select {
			case <-closed:
			default:
				t.Error("the result came before the connection was closed")
			}
			if !errors.Is(r.Err, want) || !strings.HasPrefix(r.Err.Error(), "hook acquire: ") || r.Refused {
				t.Errorf("the result is %+v, want %q", r, want)
			}
			if since := time.Since(began); since != took {
				t.Errorf("it took %v, want %v", since, took)
			}
		})
	}
}

// The timeout of a call also covers a response that never ends, and a request body that is not read.
func TestSlowAppsEndWithTheirCall(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"reads nothing": func(c net.Conn) { time.Sleep(time.Hour) },
		"drips": func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for ; err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(c, " ")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r := wired("", serve).Do(ctx, calls()["release"])
				if took := time.Since(began); !errors.Is(r.Err, hooks.ErrTimeout) || took != time.Minute {
					t.Errorf("after %v: %+v", took, r)
				}
				time.Sleep(2 * time.Hour) // the app ends
			})
		})
	}
}

// A call whose connection is refused has not reached the app: a release need not wait for it.
func TestRefusedConnectionsAreReported(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	dial := func(network, addr string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
	}
	for name, test := range map[string]struct {
		dial    func(context.Context) (net.Conn, error)
		refused bool
	}{
		"port":   {dial("tcp", ln.Addr().String()), true},
		"socket": {dial("unix", filepath.Join(t.TempDir(), "app.sock")), true},
		"other":  {func(context.Context) (net.Conn, error) { return nil, errors.New("no route") }, false},
	} {
		r := (&hooks.HTTP{Host: "app", Dial: test.dial}).Do(t.Context(), calls()["release"])
		if r.Err == nil || r.Refused != test.refused {
			t.Errorf("%s: %+v, want refused %v", name, r, test.refused)
		}
	}
}
