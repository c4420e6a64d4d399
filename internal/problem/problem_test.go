package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"shardway/internal/problem"
)

func TestAppendJSONHasFixedMembers(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    problem.Problem
		want string
	}{
		{
			"defaults",
			problem.Problem{Code: problem.QueueFull},
			`{"type":"urn:shardway:queue-full","title":"Too many requests are waiting for their shard's owner.","status":503,"code":"queue-full"}`,
		},
		{
			"everything",
			problem.Problem{
				Code: problem.QueueTimeout, Status: 599, Title: "T", Detail: "d", RetryAfter: 1500 * time.Millisecond,
				Node: "a", HasShard: true, Epoch: 7, Reason: "moving", Param: "p", Value: "v",
			},
			`{"type":"urn:shardway:queue-timeout","title":"T","status":599,"detail":"d","code":"queue-timeout","reason":"moving","node":"a","shard":0,"epoch":7,"param":"p","value":"v","retry_after":2}`,
		},
	} {
		if got := string(tc.p.AppendJSON(nil)); got != tc.want {
			t.Errorf("%s: AppendJSON =\n%s, want\n%s", tc.name, got, tc.want)
		}
	}
}

func TestEveryCodeHasStatusAndTitle(t *testing.T) {
	want := map[problem.Code]int{
		problem.NoKey: 400, problem.NoLeader: 503, problem.QueueFull: 503, problem.QueueTimeout: 503,
		problem.UpstreamRefused: 502, problem.UpstreamTimeout: 504, problem.UpstreamBroken: 502, problem.UpstreamBusy: 503,
		problem.UpstreamConnectTimeout: 504,
		problem.PeerUnreachable:        502, problem.Misrouted: 421, problem.BadRequest: 400, problem.TooLarge: 413, problem.ShardMoved: 502, problem.RerouteLoop: 508, problem.NoService: 404,
		problem.URITooLong: 414, problem.HeadersTooLarge: 431, problem.RequestTimeout: 408,
		problem.NotReady: 503, problem.NotFound: 404, problem.UnknownNode: 404, problem.NodeUnhealthy: 409, problem.NoActiveNodes: 409, problem.NotLeader: 503, problem.MethodNotAllowed: 405, problem.UnsupportedMediaType: 415,
		problem.Unauthorized: 401, problem.Forbidden: 403, problem.TooManyRequests: 429, problem.Conflict: 409, problem.Timeout: 504, problem.Internal: 500,
	}
	for c, status := range want {
		if c.Status() != status {
			t.Errorf("Status of %s = %d, want %d", c, c.Status(), status)
		}
		if title := c.Title(); title == string(c) || !strings.HasSuffix(title, ".") {
			t.Errorf("Title of %s = %q, want a sentence", c, title)
		}
	}
	if c := problem.Code("later"); c.Status() != 500 || c.Title() != "later" {
		t.Errorf("unknown code = %d %q, want 500 and itself", c.Status(), c.Title())
	}
}

func TestWriteSetsHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, &problem.Problem{Code: problem.NoLeader, RetryAfter: time.Millisecond})
	res := w.Result()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status = %d, want 503", res.StatusCode)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "Shardway-Error": "no-leader", "Retry-After": "1", "Cache-Control": "no-store",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestAppendJSONDoesNotAllocate(t *testing.T) {
	p := problem.Problem{Code: problem.QueueFull, Detail: "the queue holds \"10000\" requests", HasShard: true, Shard: 9, Node: "n1", RetryAfter: time.Second}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = p.AppendJSON(buf[:0]) }); n != 0 {
		t.Errorf("AppendJSON allocates %v times, want 0", n)
	}
}

func FuzzAppendJSONReadsBack(f *testing.F) {
	f.Add("plain", "a\"b\\c\n\t\x00\x7f<&>")
	f.Add("\xff\xfe bad", "\u2028 é \U0001f600 \ufffd")
	f.Fuzz(func(t *testing.T, detail, value string) {
		p := &problem.Problem{
			Code: problem.BadRequest, Status: 400, Title: "t", Detail: detail, Value: value, Service: "chat", HasShard: true, Shard: 3, RetryAfter: time.Second,
		}
		b := p.AppendJSON(nil)
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Fatalf("not JSON: %q", b)
		}
		got, err := problem.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		p.Detail, p.Value = asJSON(t, detail), asJSON(t, value)
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("Decode = %+v, want %+v", got, p)
		}
	})
}

// asJSON returns what encoding/json makes of s there and back: the twin that
// appendEscaped is checked against.
func asJSON(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"code":"no-key","shard":1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if p, err := problem.Decode(b); err == nil {
			_ = p.AppendJSON(nil)
			_ = p.Error()
		}
	})
}
